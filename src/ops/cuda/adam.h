// The update of a step on CUDA, without the host waiting for the norm.
//
// decide_step computes the norm and writes the decisions of a step into its control (step.h):
// whether the step is skipped because a value was not finite, the factor that unscales and clips,
// Adam's bias correction, the next loss scale. adam_step reads them there. The host copies the
// control back to log it or to write a checkpoint.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cuda/context.h"
#include "ops/muon.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

// Constant for a whole run; the learning rate is in the settings of the step.
struct UpdateOptions {
  double beta1 = 0.9;
  double beta2 = 0.997;
  double epsilon = 1e-9;
  double weight_decay = 0;  // decoupled, as in AdamW
  double clip = 0;          // largest norm; 0 does not clip
  double muon_ratio = 0;    // rate of Muon's matrices / rate of Adam
  double muon_decay = 0;    // their weight decay
  LossScaleRules scaling;
};

// The norm of the gradient, and the decisions that follow from it. A step is skipped when the norm
// or `losses` are not finite: this step's two sums of projection_loss, on the device, or null.
void decide_step(const Context& context, std::span<const float> gradient, const double* losses,
                 const UpdateOptions& options, StepMemory* step);

struct AdamBuffers {
  std::span<float> gradient;  // on the device, as all of these
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;
  void* compute_copy = nullptr;  // or null
  DType compute_type = DType::kBF16;
};

// Ranges of a buffer as a list of pieces in device memory, one for each block of a kernel.
class AdamRanges {
 public:
  AdamRanges(const Context& context, std::span<const ElementRange> ranges);

  struct Piece {
    uint32_t first = 0;  // in units of four elements, as the next
    uint32_t count = 0;
  };
  const Piece* pieces() const { return pieces_.as<Piece>(); }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
  DeviceMemory pieces_;
};

// One pass, over the whole buffers or over `ranges` of them. With `clear`, it also sets the
// gradient to 0, even when the step is skipped.
void adam_step(const Context& context, const AdamBuffers& buffers, const UpdateOptions& options,
               const StepMemory* step, bool clear, const AdamRanges* ranges = nullptr);

// parameters -> compute copy, for the start of a run.
void convert(const Context& context, std::span<const float> from, void* to, DType type);

}  // namespace reigen::cuda
