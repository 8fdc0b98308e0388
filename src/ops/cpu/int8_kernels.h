// Products of u8 with s8, summed exactly in s32, by the instructions that arm64 processors have for
// them: I8MM (since 2020) or dot products (since 2018). oneDNN 2.6 uses neither, and Highway 1.0
// has no operation for them.
//
// A weight is packed in panels of 16 outputs: for every few steps of the sum the values of output
// 0, then those of output 1, as a kernel loads them. Zeros fill up outputs and steps.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/packed_weight.h"

namespace reigen::cpu {

constexpr int64_t kPanelOutputs = 16;
// The length of a sum, and so of a row of x, is filled up to multiples of it; in x with anything.
constexpr int64_t kPanelInner = 16;

struct Int8Panels {
  std::vector<int8_t> values;
  int64_t inner = 0;  // filled up
};

// sums [rows, outputs] = x [rows, inner] weight' for outputs from `first`, which begins a panel.
struct Int8PanelTask {
  const uint8_t* x = nullptr;  // a row after the other, filled up
  int64_t rows = 0;
  const Int8Panels* weight = nullptr;
  const int32_t* weight_sums = nullptr;  // of each output's values; for whole panels
  int64_t first = 0;
  int64_t outputs = 0;
  int32_t* sums = nullptr;
  int64_t sums_stride = 0;
};

struct Int8Kernels {
  int64_t step = 0;  // of the sum: values of an output that lie together
  void (*multiply)(const Int8PanelTask& task) = nullptr;
};

enum class Int8Unit : uint8_t { kI8mm, kDot };
// Null where the processor does not have it.
const Int8Kernels* int8_kernels(Int8Unit unit);

Int8Panels pack_panels(const Int8Matrix& weight, const Int8Kernels& kernels);

}  // namespace reigen::cpu
