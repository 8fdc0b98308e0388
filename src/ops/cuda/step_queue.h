// ops/gpu_step.h on CUDA: settings sent ahead, a ring of results, device events between the parts
// of a step.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "ops/cuda/adam.h"
#include "ops/gpu_step.h"

namespace reigen::cuda {

class StepQueue : public GpuStepQueue {
 public:
  StepQueue(const Context& context, const GpuOptimizer& optimizer);
  ~StepQueue() override;

  void begin(const GpuStepSettings& settings) override;
  LossSums* sums() override;
  void mark(Mark mark) override;
  void finish() override;
  GpuStepResult take() override;

 private:
  static constexpr size_t kSteps = 4;  // under way at most

  struct Returned {  // what is copied back
    LossSums sums;
    StepControl control;
  };
  struct Timed {
    Mark mark;
    std::unique_ptr<Event> event;
  };
  struct Step {
    Event before{Event::Timing::kOn};  // where nothing was under way
    Event begun{Event::Timing::kOn};
    Event updated{Event::Timing::kOn};
    Event returned;
    std::vector<Timed> marks;  // the first `used` are this step's
    size_t used = 0;
    bool alone = false;  // nothing was under way when it began
  };
  void read_times(const Step& step, GpuStepResult& result) const;

  const Context& context_;
  AdamBuffers buffers_;
  UpdateOptions update_;
  DeviceMemory sums_;      // of each step in the ring
  PinnedMemory returned_;  // likewise
  std::array<Step, kSteps> steps_;
  uint64_t begun_ = 0;
  uint64_t taken_ = 0;
  uint64_t break_at_ = 0;  // for tests: an error of the GPU at this step
};

}  // namespace reigen::cuda
