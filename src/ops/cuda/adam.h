// ops/adam.h on CUDA, without the host ever waiting for the norm.
//
// global_norm leaves its result on the device, with the factor that clips it and whether the step
// must be skipped because something was not finite. adam_step reads both there. The host copies
// them back when it likes, to log them and to adjust a loss scale.
#pragma once

#include <cstdint>
#include <span>

#include "ops/adam.h"
#include "ops/cuda/context.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

struct StepControl {
  double norm = 0;   // of the unscaled gradient
  float factor = 1;  // what Adam multiplies the gradient by
  uint32_t skip = 0;
};

struct NormOptions {
  double clip = 0;     // largest norm; 0 does not clip
  double unscale = 1;  // 1 / loss scale
};

// `control` is device memory.
void global_norm(const Context& context, std::span<const float> gradient,
                 const NormOptions& options, StepControl* control);

struct AdamBuffers {
  std::span<float> gradient;  // on the device, as all of these
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;
  void* compute_copy = nullptr;  // or null
  DType compute_type = DType::kBF16;
};

// One pass. With `clear`, the gradient is set to 0 on the way, also when the step is skipped.
// `control` may be null; options.gradient_scale is multiplied by its factor.
void adam_step(const Context& context, const AdamStep& options, const AdamBuffers& buffers,
               const StepControl* control, bool clear);

// parameters -> compute copy, for the start of a run.
void convert(const Context& context, std::span<const float> from, void* to, DType type);

}  // namespace reigen::cuda
