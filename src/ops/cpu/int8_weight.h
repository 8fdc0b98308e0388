// A weight in int8, multiplied by oneDNN where the processor has VNNI, by our own kernels where it
// is an arm64 processor with instructions for it, else by a kernel for every processor. All give
// the same sums, because sums of integers are exact.
#pragma once

#include <memory>
#include <vector>

#include "ops/cpu/int8_kernels.h"
#include "ops/cpu/library_weight.h"
#include "ops/cpu/packed_weight.h"

namespace reigen::cpu {

// In order of preference.
enum class Int8By : uint8_t { kLibrary, kI8mm, kDot, kAnyProcessor };

class Int8Weight : public CpuWeight {
 public:
  // By the first of the ways from `by` on that this processor has.
  explicit Int8Weight(const Int8Matrix& weight, Int8By by = Int8By::kLibrary);

  void multiply(const Device& device, Tensor x, Tensor y) const override;
  bool is_copy() const override { return by_ != Int8By::kAnyProcessor; }
  Int8By by() const { return by_; }

 private:
  // Columns of y that are computed at once, so that their sums stay in the cache.
  static constexpr int64_t kBlock = 2048;

  bool pack_by(Int8By by);
  bool pack_by_library();
  bool pack_by_kernels(Int8Unit unit);
  void sums_of(const Device& device, const uint8_t* x, int64_t rows, int64_t first, int64_t count,
               int32_t* sums) const;

  Int8Matrix weight_;
  Int8By by_;
  std::vector<int32_t> row_sums_;
  std::vector<std::unique_ptr<LibraryWeight>> blocks_;  // kLibrary
  const Int8Kernels* kernels_ = nullptr;                // kI8mm, kDot
  Int8Panels panels_;
};

}  // namespace reigen::cpu
