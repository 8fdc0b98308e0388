#include "train/step/gpu_stepper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ops/ema.h"
#include "optim/muon_plan.h"
#include "optim/update.h"

namespace reigen {
namespace {

DeviceBuffer uploaded(Gpu& gpu, std::vector<float>& host, const char* what) {
  const size_t bytes = host.size() * sizeof(float);
  DeviceBuffer buffer(DeviceKind::kGpu, bytes, what);
  gpu.upload(buffer.data(), host.data(), bytes);
  return buffer;
}

bool has_local_steps(const std::string& compress) {
  return parse_compress(compress).method == CompressMethod::kLocal;
}

}  // namespace

// Among several workers: parameters, moments and compressor states in rank 0's TrainState. A single
// worker's state stays on the GPU, where the checkpoint writer copies it.
class GpuStepper::GpuSnapshot : public Snapshot {
 public:
  explicit GpuSnapshot(GpuStepper& stepper) : stepper_(stepper), shared_(collected(stepper)) {}

  StateSource* source() override { return stepper_.exchange_ ? nullptr : &stepper_; }
  bool own_moments() const override {
    return stepper_.exchange_ && stepper_.exchange_->between_outer_steps();
  }
  void reload() override {
    if (!stepper_.exchange_) return;
    stepper_.exchange_->put();
    stepper_.put_average();
  }
  void end() override { shared_.end(); }

 private:
  // The worker's own weights are among the states that are collected, so the swap comes after it.
  static std::function<void()> collected(GpuStepper& stepper) {
    if (!stepper.exchange_) return {};
    stepper.exchange_->fetch();
    stepper.fetch_average();
    stepper.exchange_->collect();
    return [&stepper] { stepper.exchange_->swap_shared(); };
  }

  GpuStepper& stepper_;
  SwappedWeights shared_;
};

GpuStepper::GpuStepper(const Device& device, DType type, Transformer& model,
                       const TrainOptions& options, TrainState& state, Job& job, Group* direct)
    : device_(device),
      gpu_(*device.gpu()),
      model_(model),
      options_(options),
      state_(state),
      job_(job),
      exchange_(job.alone() ? nullptr
                            : std::make_unique<GpuExchange>(job, device, model.layout(), options,
                                                            state, direct)),
      weights_(device, model, state.parameters, type),
      elements_(state.parameters.size()),
      frozen_(model.layout(), options.tune.freeze),
      gradient_(DeviceKind::kGpu, elements_ * sizeof(float), "the gradient"),
      first_moment_(uploaded(gpu_, state.first_moment, "the optimizer's first moment")),
      second_moment_(uploaded(gpu_, state.second_moment, "the optimizer's second moment")),
      average_(uploaded(gpu_, state.average, "the average of the weights")) {
  if (job.alone()) drop_worker_states(state);
  for (auto* host :
       {&state.parameters, &state.first_moment, &state.second_moment, &state.average}) {
    std::vector<float>().swap(*host);
  }
  gpu_.clear(gradient_.data(), gradient_.size());
  if (has_local_steps(state.choices.compress) && type == DType::kF16 &&
      options.loss_scaling == LossScaling::kLogMax) {
    throw ConfigError(
        "--compress local with --precision fp16 cannot be combined with optimizer.loss-scaling "
        "logmax: it follows the gradients of each worker, so their loss scales would differ; use "
        "optimizer.loss-scaling backoff or --precision bf16");
  }
  GpuOptimizer optimizer = this->optimizer();
  optimizer.scaling = type == DType::kF16 ? options.loss_scaling : LossScaling::kOff;
  queue_ = gpu_backend(device)->step_queue(optimizer);
  if (exchange_) {
    exchange_->attach({optimizer.gradient, optimizer.parameters, optimizer.first_moment,
                       optimizer.second_moment, weights_.view()});
  }
}

// Queued work reads the memory that is freed now.
GpuStepper::~GpuStepper() {
  try {
    gpu_.wait();
  } catch (const std::exception&) {  // the step that failed has reported it
  }
}

GpuOptimizer GpuStepper::optimizer() const {
  const Weights& weights = weights_.view();
  GpuOptimizer out;
  out.gradient = {gradient_.as<float>(), elements_};
  out.parameters = weights_.master();
  out.first_moment = {first_moment_.as<float>(), elements_};
  out.second_moment = {second_moment_.as<float>(), elements_};
  out.compute_copy = weights.type == DType::kF32 ? nullptr : weights.compute;
  out.compute_type = weights.type;
  out.adam = adam_constants(options_.optimizer);
  const bool muon = options_.optimizer.kind == OptimizerKind::kMuon;
  if (muon || !frozen_.empty()) {
    out.plan = frozen_.without_frozen(muon_plan(model_.layout(), options_.optimizer));
  }
  if (muon) {
    out.muon = muon_constants(options_.optimizer);
    out.muon_ratio = options_.optimizer.muon_ratio;
    out.several_workers = exchange_ != nullptr;
  }
  out.clip = options_.optimizer.clip;
  out.updates = state_.counters.updates;
  out.scale = state_.counters.loss_scale;
  return out;
}

// Frozen parameters have no gradient: neither the norm nor other ranks count them.
void GpuStepper::clear_frozen(size_t elements) {
  frozen_.visit(cleared_, elements, [&](ElementRange range) {
    gpu_.clear(gradient_.as<float>() + range.begin, range.size() * sizeof(float));
  });
  cleared_ = elements;
}

void GpuStepper::enqueue(const ReadyBatch& ready, uint64_t step) {
  using Mark = GpuStepQueue::Mark;
  Transformer::StepEvents events;
  events.forward_done = [&] { queue_->mark(Mark::kForward); };
  events.loss_done = [&](const LossSums&) { queue_->mark(Mark::kLoss); };
  const bool reduced = exchange_ && !exchange_->local();
  cleared_ = 0;
  for (size_t i = 0; i < ready.micro_batches.size(); ++i) {
    if (exchange_) exchange_->check();
    if (reduced && i + 1 == ready.micro_batches.size()) {
      events.loss_done = [&](const LossSums&) {
        queue_->mark(Mark::kLoss);
        exchange_->losses_final(queue_->sums());
      };
      events.ready = [this](size_t elements) {
        clear_frozen(elements);
        exchange_->ready(elements);
      };
    }
    Transformer::StepInput input{.batch = ready.micro_batches[i]};
    input.seed = static_cast<uint64_t>(options_.seed);
    input.step = step;
    input.smoothing = static_cast<float>(options_.smoothing);
    input.sums = queue_->sums();
    std::unique_ptr<BatchIndex> own;
    if (i >= ready.staged.size())
      own = model_.index(device_, ready.micro_batches[i], weights_.view().type);
    const auto* index = own ? own.get() : static_cast<const BatchIndex*>(ready.staged[i].get());
    queue_->run(*index, reduced ? 0 : memory_state(), [&](const BatchIndex& batch) {
      input.index = &batch;
      model_.forward_backward(device_, input, weights_.view(), {gradient_.as<float>(), elements_},
                              arena_, events);
      queue_->mark(Mark::kBackward);
    });
  }
  clear_frozen(elements_);
}

// Identifies the memory that a recorded step uses; 0 while the arena may still move, when nothing
// can be recorded.
uint64_t GpuStepper::memory_state() const {
  return arena_.in_one_block() ? (arenas_ << 32) + arena_.allocations() : 0;
}

// Recorded steps are lost with their memory, so it is freed only where memory is short.
void GpuStepper::release_memory() {
  if (options_.memory == 0 && arena_.capacity() < gpu_.free_memory() / 2) return;
  gpu_.wait();
  arena_ = Arena(DeviceKind::kGpu);
  ++arenas_;
}

void GpuStepper::start(const ReadyBatch& ready) {
  const uint64_t step = state_.counters.step + waiting_.size() + 1;
  begun_ = planned_step(options_.schedule, state_.choices.decay, step, ready);
  reduced_ = false;
  if (exchange_) exchange_->begin(step, loss_scale());
  const bool local = exchange_ && exchange_->local();
  const auto tokens = static_cast<double>(averaged_tokens(ready, local));
  queue_->begin({.step = step, .rate = begun_->rate, .gradient_scale = 1 / tokens});
  update_average();
  enqueue(ready, step);
  if (exchange_) exchange();
  commit();
}

void GpuStepper::commit() {
  reduced_ = false;
  if (exchange_) exchange_->commit();
  queue_->finish();
  if (exchange_ && exchange_->local()) exchange_->after_update();
  const uint64_t steps = exchange_ ? exchange_->steps_with_shared_weights() : 1;
  if (average_.size() > 0 && steps > 0) {
    average_weight_ = ema_weight(options_.ema_decay, begun_->step, steps);
  }
  waiting_.push_back(std::move(*begun_));
  begun_.reset();
}

void GpuStepper::roll_forward() {
  exchange_->take_losses(queue_->sums());
  queue_->mark(GpuStepQueue::Mark::kExchange);
  commit();
}

// Copies and kernels of the step are waited for, because they use the gradient.
void GpuStepper::abandon() {
  if (!begun_) return;
  exchange_->abandon();
  gpu_.wait();
  gpu_.clear(gradient_.data(), gradient_.size());
  queue_->abandon();
  begun_.reset();
  reduced_ = false;
}

// Adds the parameters of the last step, at the begin of the next one, whose time it is part of, or
// before the average is read. Whether that step was skipped is not known, so it counts in any case.
void GpuStepper::update_average() {
  const double weight = std::exchange(average_weight_, 0);
  if (weight == 0) return;
  ema_step(device_, weight, weights_.master(), {average_.as<float>(), elements_});
}

void GpuStepper::fetch_average() {
  if (average_.size() == 0) return;
  update_average();
  state_.average.resize(elements_);
  gpu_.download(state_.average.data(), average_.data(), average_.size());
}

void GpuStepper::put_average() {
  if (average_.size() > 0) gpu_.upload(average_.data(), state_.average.data(), average_.size());
}

StepResult GpuStepper::finish() {
  StepResult result = std::move(waiting_.front());
  waiting_.pop_front();
  const GpuStepResult gpu = queue_->take();
  const auto tokens = static_cast<double>(result.target_tokens);
  result.loss = gpu.sums.smoothed / tokens;
  result.nll = gpu.sums.nll / tokens;
  result.norm = gpu.norm;
  result.skipped = gpu.skipped;
  if (weights_.view().type == DType::kF16) result.loss_scale = state_.counters.loss_scale.scale;
  result.spans = {{"forward", gpu.forward}, {"loss", gpu.loss}, {"backward", gpu.backward}};
  if (exchange_) {
    const double compression = std::min(exchange_->compute_seconds(), gpu.exchange);
    result.spans.emplace_back("compression", compression);
    result.spans.emplace_back("communication", gpu.exchange - compression);
    result.communication = exchange_->communication();
  }
  result.spans.emplace_back("optimizer", gpu.optimizer);
  Spans chain = result.spans;
  if (!exchange_) {
    chain.insert(chain.begin(), {"input", gpu.idle});
    result.device_clock = {.idle = gpu.idle};
    for (const auto& span : chain) result.device_clock->seconds += span.second;
  }
  if (timeline_ != nullptr) {
    timeline_->add_chain("GPU, by its own events", result.step, chain);
  }
  state_.counters.updates = gpu.updates;
  state_.counters.loss_scale = gpu.scale;
  count_step(state_.counters, result);
  return result;
}

// The host waits here for the last bucket of the gradient and for the other ranks.
void GpuStepper::exchange() {
  if (!exchange_->local()) exchange_->finish();
  reduced_ = job_.elastic();
  exchange_->agree(queue_->sums());
  queue_->mark(GpuStepQueue::Mark::kExchange);
}

// The loss scale of the next step.
double GpuStepper::loss_scale() const {
  if (weights_.view().type != DType::kF16) return 1;
  const double scale = state_.counters.loss_scale.scale;
  return scale > 0 ? scale : kFirstLossScale;
}

SwappedWeights GpuStepper::shared_weights() {
  if (!exchange_) return SwappedWeights({});
  return SwappedWeights([this] { exchange_->swap_shared(); });
}

// The compute copy is shared: it holds the average while that is shown.
SwappedWeights GpuStepper::averaged_weights() {
  update_average();
  return SwappedWeights([this] {
    const Weights& own = weights_.view();
    const bool show = !averaged_;
    const std::span<float> shown =
        show ? std::span(average_.as<float>(), elements_) : weights_.master();
    if (own.type != DType::kF32) gpu_backend(device_)->convert(shown, own.compute, own.type);
    averaged_.reset();
    if (!show) return;
    averaged_ = own;
    averaged_->master = shown.data();
    if (own.type == DType::kF32) averaged_->compute = shown.data();
  });
}

std::unique_ptr<Snapshot> GpuStepper::snapshot() { return std::make_unique<GpuSnapshot>(*this); }

void GpuStepper::begin() {
  update_average();
  const void* sources[] = {weights_.view().master, first_moment_.data(), second_moment_.data(),
                           average_.data()};
  for (size_t i = 0; i < state_buffers(); ++i) {
    const size_t bytes = elements_ * sizeof(float);
    if (copies_[i].size() == 0) {
      copies_[i] = DeviceBuffer(DeviceKind::kGpu, bytes, "a checkpoint's copy");
    }
    gpu_.copy(copies_[i].data(), sources[i], bytes);
  }
  gpu_.mark_snapshot();
}

void GpuStepper::complete(TrainState& into) {
  std::vector<float>* targets[] = {&into.parameters, &into.first_moment, &into.second_moment,
                                   &into.average};
  for (size_t i = 0; i < state_buffers(); ++i) {
    targets[i]->resize(elements_);
    gpu_.download_snapshot(targets[i]->data(), copies_[i].data(), elements_ * sizeof(float));
  }
}

}  // namespace reigen
