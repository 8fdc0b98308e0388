#include "ops/cuda/step_queue.h"

#include <algorithm>
#include <stdexcept>

#include "ops/cuda/fault_injection.h"

namespace reigen::cuda {
namespace {

constexpr size_t kMostRecordings = 64;  // layouts

UpdateOptions update_options(const GpuOptimizer& o) {
  UpdateOptions out;
  out.beta1 = o.adam.beta1;
  out.beta2 = o.adam.beta2;
  out.epsilon = o.adam.epsilon;
  out.weight_decay = o.adam.weight_decay;
  out.clip = o.clip;
  out.muon_ratio = o.muon_ratio;
  out.muon_decay = o.muon.weight_decay;
  out.scaling.policy = o.scaling;
  return out;
}

StepControl first_control(const GpuOptimizer& o, const LossScaleRules& rules) {
  StepControl control = initial_control(rules);
  control.updates = o.updates;
  if (o.scale.scale <= 0) return control;
  control.loss_scale = o.scale.scale;
  control.ceiling = o.scale.ceiling;
  control.finite_steps = o.scale.good_steps;
  control.log_mean = o.scale.mean;
  control.log_variance = o.scale.variance;
  control.log_count = o.scale.seen;
  return control;
}

}  // namespace

StepQueue::StepQueue(const Context& context, const BatchSlots& slots, const GpuOptimizer& o)
    : context_(context),
      slots_(slots),
      buffers_{o.gradient,      o.parameters,   o.first_moment,
               o.second_moment, o.compute_copy, o.compute_type},
      update_(update_options(o)),
      sums_(sizeof(LossSums), "loss sums"),
      returned_(kSteps * sizeof(Returned), "results of steps") {
  context_.set_control(first_control(o, update_.scaling));
  if (o.plan.matrices.empty() && o.plan.rest.empty()) return;
  rest_.emplace(context, o.plan.rest);
  if (o.plan.matrices.empty()) return;
  muon_.emplace(context, o.plan.matrices,
                MuonSettings{o.compute_type, o.muon.momentum, !o.several_workers});
}

StepQueue::~StepQueue() = default;

void StepQueue::begin(const GpuStepSettings& settings) {
  if (begun_ - taken_ == kSteps) throw std::logic_error("too many steps in flight");
  Step& step = steps_[begun_ % kSteps];
  step.used = 0;
  step.alone = begun_++ == taken_;
  if (step.alone) step.before.record(context_.stream());
  inject_fault(context_.stream(), settings.step);
  context_.set_step({settings.step, settings.rate, settings.gradient_scale});
  fill_zero(sums(), sizeof(LossSums), context_.stream());
  step.begun.record(context_.stream());
}

LossSums* StepQueue::sums() { return sums_.as<LossSums>(); }

StepQueue::Timed& StepQueue::next_mark(Mark mark) {
  Step& step = steps_[(begun_ - 1) % kSteps];
  if (step.used == step.marks.size()) {
    step.marks.push_back({mark, std::make_unique<Event>(Event::Timing::kOn)});
  }
  Timed& timed = step.marks[step.used++];
  timed.mark = mark;
  return timed;
}

void StepQueue::mark(Mark mark) {
  const Timed& timed = next_mark(mark);
  const unsigned how = recording_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(timed.event->get(), context_.stream(), how), "record an event");
}

StepQueue::Recording::~Recording() {
  if (graph != nullptr) cudaGraphExecDestroy(graph);
  if (nodes != nullptr) cudaGraphDestroy(nodes);
}

void StepQueue::run(const BatchIndex& batch, uint64_t memory,
                    const std::function<void(const BatchIndex&)>& work) {
  const uint64_t layout = BatchSlots::layout_of(batch);
  const void* scratch = context_.scratch(0);
  if (memory != memory_ || scratch != scratch_) {  // recordings read freed memory
    recordings_.clear();
    memory_ = memory;
    scratch_ = scratch;
  }
  if (layout == 0 || memory == 0) return work(batch);
  if (!recordings_.contains(layout)) make_room();
  Recording& recording = recordings_[layout];
  recording.last_step = begun_;
  // The first run is not recorded: it chooses algorithms and allocates memory.
  if (recording.seen++ == 0) return work(batch);
  if (recording.graph == nullptr) record(recording, batch, work);
  replay(recording, batch);
}

// Discards the recording that was not used for longest; that is many steps ago, so it has finished.
void StepQueue::make_room() {
  if (recordings_.size() < kMostRecordings) return;
  auto older = [](const auto& a, const auto& b) { return a.second.last_step < b.second.last_step; };
  recordings_.erase(std::min_element(recordings_.begin(), recordings_.end(), older));
}

void StepQueue::record(Recording& recording, const BatchIndex& batch,
                       const std::function<void(const BatchIndex&)>& work) {
  const size_t used = steps_[(begun_ - 1) % kSteps].used;
  recording.batch = BatchSlots::fixed_like(batch);
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal),
        "begin to record a step");
  recording_ = true;
  try {
    work(*recording.batch);
  } catch (...) {
    recording_ = false;
    cudaStreamEndCapture(context_.stream(), &graph);
    throw;
  }
  recording_ = false;
  check(cudaStreamEndCapture(context_.stream(), &graph), "record a step");
  recording.nodes = graph;
  check(cudaGraphInstantiate(&recording.graph, graph, 0), "prepare a recorded step");
  // Find the nodes of the graph that are marks.
  size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "count the parts of a recorded step");
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count), "list the parts of a recorded step");
  Step& step = steps_[(begun_ - 1) % kSteps];
  for (size_t i = used; i < step.used; ++i) {
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type;
      cudaEvent_t event = nullptr;
      check(cudaGraphNodeGetType(node, &type), "read a part of a recorded step");
      if (type != cudaGraphNodeTypeEventRecord) continue;
      check(cudaGraphEventRecordNodeGetEvent(node, &event), "read a part of a recorded step");
      if (event == step.marks[i].event->get()) {
        recording.marks.push_back({step.marks[i].mark, node});
      }
    }
  }
  step.used = used;  // the replay marks them again
}

void StepQueue::replay(Recording& recording, const BatchIndex& batch) {
  slots_.load(batch, *recording.batch);
  for (const auto& [mark, node] : recording.marks) {
    const Timed& timed = next_mark(mark);
    check(cudaGraphExecEventRecordNodeSetEvent(recording.graph, node, timed.event->get()),
          "time a recorded step");
  }
  check(cudaGraphLaunch(recording.graph, context_.stream()), "replay a step");
}

void StepQueue::finish() {
  const size_t at = (begun_ - 1) % kSteps;
  decide_step(context_, buffers_.gradient, &sums()->smoothed, update_, context_.step());
  if (muon_) muon_->start();
  adam_step(context_, buffers_, update_, context_.step(), true, rest_ ? &*rest_ : nullptr);
  if (muon_) muon_->finish(buffers_, context_.step(), true);
  steps_[at].updated.record(context_.stream());
  Returned* to = returned_.as<Returned>() + at;
  copy_to_host(&to->sums, sums(), sizeof(LossSums), context_.stream());
  copy_to_host(&to->control, context_.control(), sizeof(StepControl), context_.stream());
  steps_[at].returned.record(context_.stream());
}

void StepQueue::read_times(const Step& step, GpuStepResult& result) const {
  auto seconds = [](const Event& from, const Event& to) {
    return static_cast<double>(to.milliseconds_since(from)) / 1000;
  };
  // Time in which no step was in flight does not count as idle time of this step.
  const Event& before = step.alone ? step.before : steps_[(taken_ + kSteps - 1) % kSteps].updated;
  result.idle = seconds(before, step.begun);
  const Event* last = &step.begun;
  for (size_t i = 0; i < step.used; ++i) {
    const Timed& timed = step.marks[i];
    double& part = timed.mark == Mark::kForward    ? result.forward
                   : timed.mark == Mark::kLoss     ? result.loss
                   : timed.mark == Mark::kBackward ? result.backward
                                                   : result.exchange;
    part += seconds(*last, *timed.event);
    last = timed.event.get();
  }
  result.optimizer = seconds(*last, step.updated);
}

GpuStepResult StepQueue::take() {
  const size_t at = taken_ % kSteps;
  steps_[at].returned.wait();
  const Returned& returned = returned_.as<Returned>()[at];
  const StepControl& control = returned.control;
  GpuStepResult result;
  result.sums = returned.sums;
  result.norm = control.norm;
  result.skipped = control.skip != 0;
  result.updates = control.updates;
  result.scale = {control.loss_scale, control.ceiling,      control.finite_steps,
                  control.log_mean,   control.log_variance, control.log_count};
  read_times(steps_[at], result);
  ++taken_;
  return result;
}

}  // namespace reigen::cuda
