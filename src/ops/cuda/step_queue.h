// ops/gpu_step.h on CUDA: settings sent ahead, a ring of results, device events between the parts
// of a step, and recorded steps as CUDA graphs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ops/cuda/adam.h"
#include "ops/cuda/batch_slots.h"
#include "ops/cuda/muon.h"
#include "ops/gpu_step.h"

namespace reigen::cuda {

class StepQueue : public GpuStepQueue {
 public:
  StepQueue(const Context& context, const BatchSlots& slots, const GpuOptimizer& optimizer);
  ~StepQueue() override;

  void begin(const GpuStepSettings& settings) override;
  LossSums* sums() override;
  void mark(Mark mark) override;
  void run(const BatchIndex& batch, uint64_t memory,
           const std::function<void(const BatchIndex&)>& work) override;
  void finish() override;
  GpuStepResult take() override;
  void abandon() override { --begun_; }

 private:
  static constexpr size_t kSteps = 4;  // in flight at most

  struct Returned {  // copied back to the host
    LossSums sums;
    StepControl control;
  };
  struct Timed {
    Mark mark;
    std::unique_ptr<Event> event;
  };
  struct Step {
    Event before{Event::Timing::kOn};  // recorded when no other step was in flight
    Event begun{Event::Timing::kOn};
    Event updated{Event::Timing::kOn};
    Event returned;
    std::vector<Timed> marks;  // the first `used` are this step's
    size_t used = 0;
    bool alone = false;  // no other step was in flight when it began
  };
  // The work of one layout of batches as a graph.
  struct Recording {
    uint64_t seen = 0;
    uint64_t last_step = 0;
    std::unique_ptr<BatchIndex> batch;  // the copy that it reads
    cudaGraph_t nodes = nullptr;        // the source of `graph`
    cudaGraphExec_t graph = nullptr;
    struct Node {
      Mark mark;
      cudaGraphNode_t node;
    };
    std::vector<Node> marks;  // in order

    Recording() = default;
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording();
  };
  Timed& next_mark(Mark mark);
  void make_room();
  void record(Recording& recording, const BatchIndex& batch,
              const std::function<void(const BatchIndex&)>& work);
  void replay(Recording& recording, const BatchIndex& batch);
  void read_times(const Step& step, GpuStepResult& result) const;

  const Context& context_;
  const BatchSlots& slots_;
  AdamBuffers buffers_;
  UpdateOptions update_;
  std::optional<Muon> muon_;        // for hidden matrices
  std::optional<AdamRanges> rest_;  // the elements beside them
  DeviceMemory sums_;               // of the current step
  PinnedMemory returned_;           // of each step in the ring
  std::array<Step, kSteps> steps_;
  uint64_t begun_ = 0;
  uint64_t taken_ = 0;
  std::map<uint64_t, Recording> recordings_;  // by layout
  uint64_t memory_ = 0;
  const void* scratch_ = nullptr;
  bool recording_ = false;
};

}  // namespace reigen::cuda
