#include "train/step/gpu_stepper.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace reigen {
namespace {

DeviceBuffer uploaded(GpuOps& gpu, std::vector<float>& host, const char* what) {
  const size_t bytes = host.size() * sizeof(float);
  DeviceBuffer buffer(DeviceKind::kGpu, bytes, what);
  gpu.upload(buffer.data(), host.data(), bytes);
  return buffer;
}

bool own_steps(const std::string& compress) {
  return parse_compress(compress).method == CompressMethod::kLocal;
}

LossScaling scaling_of(DType type, LossScalePolicy policy) {
  if (type != DType::kF16) return LossScaling::kOff;
  return policy == LossScalePolicy::kLogMax ? LossScaling::kLogMax : LossScaling::kBackoff;
}

}  // namespace

GpuStepper::GpuStepper(const Device& device, DType type, Transformer& model,
                       const TrainOptions& options, TrainState& state, Job& job, Group* direct)
    : device_(device),
      gpu_(*device.gpu()),
      model_(model),
      options_(options),
      state_(state),
      exchange_(job.alone() ? nullptr
                            : std::make_unique<GpuExchange>(job, gpu_, model.layout(), options,
                                                            state, direct)),
      weights_(device, model, state.parameters, type),
      elements_(state.parameters.size()),
      gradient_(DeviceKind::kGpu, elements_ * sizeof(float), "the gradient"),
      first_moment_(uploaded(gpu_, state.first_moment, "the optimizer's first moment")),
      second_moment_(uploaded(gpu_, state.second_moment, "the optimizer's second moment")) {
  if (job.alone()) drop_kept(state);
  for (auto* host : {&state.parameters, &state.first_moment, &state.second_moment}) {
    std::vector<float>().swap(*host);
  }
  gpu_.clear(gradient_.data(), gradient_.size());
  if (own_steps(state.counters.compress) && type == DType::kF16) {
    throw ConfigError(
        "--compress local does not go with --precision fp16: workers that train apart would scale "
        "their losses apart; use bf16, or powersgd:8");
  }
  GpuOptimizer optimizer = this->optimizer();
  optimizer.scaling = scaling_of(type, options.loss_scaling);
  queue_ = gpu_.step_queue(optimizer);
  if (exchange_) {
    exchange_->attach({optimizer.gradient, optimizer.parameters, optimizer.first_moment,
                       optimizer.second_moment, weights_.view()});
  }
}

// What is in line reads the memory that is freed now.
GpuStepper::~GpuStepper() {
  try {
    gpu_.wait();
  } catch (const std::exception&) {  // said before, by what met it first
  }
}

GpuOptimizer GpuStepper::optimizer() const {
  const OptimizerOptions& o = options_.optimizer;
  const Weights& weights = weights_.view();
  GpuOptimizer out;
  out.gradient = {gradient_.as<float>(), elements_};
  out.parameters = weights_.master();
  out.first_moment = {first_moment_.as<float>(), elements_};
  out.second_moment = {second_moment_.as<float>(), elements_};
  out.compute_copy = weights.type == DType::kF32 ? nullptr : weights.compute;
  out.compute_type = weights.type;
  out.adam.beta1 = o.beta1;
  out.adam.beta2 = o.beta2;
  out.adam.epsilon = o.epsilon;
  out.adam.weight_decay = o.kind == OptimizerKind::kAdamW ? o.weight_decay : 0;
  out.clip = o.clip;
  out.updates = state_.counters.updates;
  out.scale = state_.counters.loss_scale;
  return out;
}

void GpuStepper::enqueue(const ReadyBatch& ready, const StepRecord& record) {
  using Mark = GpuStepQueue::Mark;
  Transformer::StepEvents events;
  events.forward_done = [&] { queue_->mark(Mark::kForward); };
  events.loss_done = [&] { queue_->mark(Mark::kLoss); };
  const bool together = exchange_ && !exchange_->local();
  for (size_t i = 0; i < ready.parts.size(); ++i) {
    if (together && i + 1 == ready.parts.size()) {
      events.ready = [this](size_t elements) { exchange_->ready(elements); };
    }
    Transformer::StepInput input{.batch = ready.parts[i]};
    input.seed = static_cast<uint64_t>(options_.seed);
    input.step = record.step;
    input.smoothing = static_cast<float>(options_.smoothing);
    input.sums = queue_->sums();
    std::unique_ptr<BatchIndex> own;
    if (i >= ready.staged.size()) own = model_.index(device_, ready.parts[i], weights_.view().type);
    const auto* index = own ? own.get() : static_cast<const BatchIndex*>(ready.staged[i].get());
    queue_->run(*index, together ? 0 : memory_state(), [&](const BatchIndex& batch) {
      input.index = &batch;
      model_.forward_backward(device_, input, weights_.view(), {gradient_.as<float>(), elements_},
                              arena_, events);
      queue_->mark(Mark::kBackward);
    });
  }
}

// While the arena is about to move, nothing can be recorded.
uint64_t GpuStepper::memory_state() const {
  return gpu_.may_record() && arena_.in_one_block() ? (arenas_ << 32) + arena_.allocations() : 0;
}

// Recorded steps live as long as their memory, so it is only given back where there is need.
void GpuStepper::release_memory() {
  if (options_.memory == 0 && arena_.capacity() < gpu_.free_memory() / 2) return;
  gpu_.wait();
  arena_ = Arena(DeviceKind::kGpu);
  ++arenas_;
}

void GpuStepper::start(const ReadyBatch& ready) {
  const uint64_t step = state_.counters.step + waiting_.size() + 1;
  const StepRecord record = record_of(options_, step, ready);
  if (exchange_) exchange_->begin(step, loss_scale());
  const bool local = exchange_ && exchange_->local();
  const uint64_t tokens = local ? own_target_tokens(ready) : ready.batch.target_tokens;
  queue_->begin(
      {.step = step, .rate = record.rate, .gradient_scale = 1 / static_cast<double>(tokens)});
  enqueue(ready, record);
  if (exchange_) exchange();
  queue_->finish();
  if (local) exchange_->after_update();
  waiting_.push_back({record, ready.batch.end});
}

StepRecord GpuStepper::finish() {
  Waiting done = std::move(waiting_.front());
  waiting_.pop_front();
  const GpuStepResult result = queue_->take();
  StepRecord& record = done.record;
  const auto tokens = static_cast<double>(record.target_tokens);
  record.loss = result.sums.smoothed / tokens;
  record.nll = result.sums.nll / tokens;
  record.norm = result.norm;
  record.skipped = result.skipped;
  if (weights_.view().type == DType::kF16) record.loss_scale = state_.counters.loss_scale.scale;
  record.spans = {
      {"forward", result.forward}, {"loss", result.loss}, {"backward", result.backward}};
  if (exchange_) {
    const double compression = std::min(exchange_->compute_seconds(), result.exchange);
    record.spans.emplace_back("compression", compression);
    record.spans.emplace_back("communication", result.exchange - compression);
    record.communication = exchange_->communication();
  } else {
    record.spans.insert(record.spans.begin(), {"input", result.idle});
  }
  record.spans.emplace_back("optimizer", result.optimizer);
  if (!exchange_) {
    for (const auto& span : record.spans) record.seconds += span.second;
  }
  if (timeline_ != nullptr) {
    timeline_->add_chain("GPU, by its own events", record.step, record.spans);
  }
  state_.counters.updates = result.updates;
  state_.counters.loss_scale = result.scale;
  count_step(state_.counters, record, done.end);
  return record;
}

// The host waits here: for the last piece of the gradient, and for the others.
void GpuStepper::exchange() {
  if (!exchange_->local()) exchange_->finish();
  exchange_->agree(queue_->sums());
  queue_->mark(GpuStepQueue::Mark::kExchange);
}

// Of the next step.
double GpuStepper::loss_scale() const {
  if (weights_.view().type != DType::kF16) return 1;
  const double scale = state_.counters.loss_scale.scale;
  return scale > 0 ? scale : kFirstLossScale;
}

void GpuStepper::collect() {
  if (!exchange_) return;
  exchange_->fetch();
  exchange_->collect();
}

void GpuStepper::put_state() {
  if (exchange_) exchange_->put();
}

void GpuStepper::swap_shared() {
  if (exchange_) exchange_->swap_shared();
}

void GpuStepper::begin() {
  const void* sources[] = {weights_.view().master, first_moment_.data(), second_moment_.data()};
  for (size_t i = 0; i < 3; ++i) {
    const size_t bytes = elements_ * sizeof(float);
    if (copies_[i].size() == 0) {
      copies_[i] = DeviceBuffer(DeviceKind::kGpu, bytes, "a checkpoint's copy");
    }
    gpu_.copy(copies_[i].data(), sources[i], bytes);
  }
  gpu_.mark_copy();
}

void GpuStepper::complete(TrainState& into) {
  std::vector<float>* targets[] = {&into.parameters, &into.first_moment, &into.second_moment};
  for (size_t i = 0; i < 3; ++i) {
    targets[i]->resize(elements_);
    gpu_.download_beside(targets[i]->data(), copies_[i].data(), elements_ * sizeof(float));
  }
}

}  // namespace reigen
