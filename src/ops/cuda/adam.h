// The update of a step on CUDA, without the host waiting for the norm.
//
// global_norm writes the decisions of a step into its control (step.h): the factor that unscales
// and clips, whether the step is skipped because a value was not finite, Adam's bias correction,
// the next loss scale. adam_step reads them there. The host copies the control back to log it or to
// write a checkpoint.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cuda/context.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

// Constant for a whole run; the learning rate is in the settings of the step.
struct UpdateOptions {
  double beta1 = 0.9;
  double beta2 = 0.997;
  double epsilon = 1e-9;
  double weight_decay = 0;  // decoupled, as in AdamW
  double clip = 0;          // largest norm; 0 does not clip
  LossScaleRules scaling;
};

// `losses` are this step's two sums of projection_loss, on the device, or null: a step is skipped
// when they or the norm are not finite.
void global_norm(const Context& context, std::span<const float> gradient, const double* losses,
                 const UpdateOptions& options, StepMemory* step);

struct AdamBuffers {
  std::span<float> gradient;  // on the device, as all of these
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;
  void* compute_copy = nullptr;  // or null
  DType compute_type = DType::kBF16;
};

// One pass. With `clear`, it also sets the gradient to 0, even when the step is skipped.
void adam_step(const Context& context, const AdamBuffers& buffers, const UpdateOptions& options,
               const StepMemory* step, bool clear);

// parameters -> compute copy, for the start of a run.
void convert(const Context& context, std::span<const float> from, void* to, DType type);

}  // namespace reigen::cuda
