// A weight in int8, multiplied by oneDNN where the processor has VNNI, else by our own kernel. Both
// give the same sums, because sums of integers are exact.
#pragma once

#include <memory>
#include <vector>

#include "ops/cpu/library_weight.h"
#include "ops/cpu/packed_weight.h"

namespace reigen::cpu {

class Int8Weight : public CpuWeight {
 public:
  // Without `library` by our own kernel, on any processor.
  explicit Int8Weight(const Int8Matrix& weight, bool library = true);

  void multiply(const Device& device, Tensor x, Tensor y) const override;
  bool is_copy() const override { return !blocks_.empty(); }

 private:
  // Columns of y that are computed at once, so that their sums stay in the cache.
  static constexpr int64_t kBlock = 2048;

  void sums_of(const Device& device, const uint8_t* x, int64_t rows, int64_t first, int64_t count,
               int32_t* sums) const;

  Int8Matrix weight_;
  std::vector<int32_t> row_sums_;
  std::vector<std::unique_ptr<LibraryWeight>> blocks_;  // empty: our own kernel
};

}  // namespace reigen::cpu
