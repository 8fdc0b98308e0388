// The flat parameter store: every parameter of a model is a named slice of one buffer.
//
// Slices are laid out in the order backward finishes their gradients, so that a gradient bucket is
// a contiguous slice that can be reduced while backward is still running, a checkpoint is a copy,
// and the optimizer is one loop. Master weights, gradients and moments are buffers of the same
// layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace reigen {

struct ParameterSlice {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  size_t offset = 0;  // in elements; a multiple of kSliceAlignment
  // Hidden matrices in this slice, one below the other, such as 3 of queries, keys and values; 0
  // for embeddings, gains, shifts and biases. Muon updates hidden matrices (ops/muon.h).
  int64_t matrices = 0;
  size_t size() const { return static_cast<size_t>(rows * cols); }
};

// Names, shapes and offsets of all parameters; the same for every buffer of a model.
class ParameterLayout {
 public:
  static constexpr size_t kSliceAlignment = 16;  // elements: a vector register, a cache line

  // Returns its index. `matrices` as in ParameterSlice.
  size_t add(std::string name, int64_t rows, int64_t cols, int64_t matrices = 0);

  const std::vector<ParameterSlice>& slices() const { return slices_; }
  const ParameterSlice& find(const std::string& name) const;  // throws std::out_of_range
  size_t parameters() const;                                  // without alignment gaps
  size_t elements() const { return elements_; }               // length of a buffer, with gaps

  // When gradients become final during backward, for predictions of overlap. `first`: fraction of
  // backward's time until the first gradient is final. `last`: offset from which gradients are
  // final only when backward ends. Defaults: 0.2, and the offset of the last slice.
  void set_gradient_timing(double first, size_t last);
  double first_final_at() const { return first_final_at_; }
  size_t last_final_from() const;

 private:
  std::vector<ParameterSlice> slices_;
  size_t elements_ = 0;
  double first_final_at_ = 0.2;
  std::optional<size_t> last_final_from_;
};

// A view of slice `index` in a buffer of this layout.
Tensor slice_of(const ParameterLayout& layout, size_t index, float* buffer);

}  // namespace reigen
