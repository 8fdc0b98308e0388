#include "train/step/cpu_stepper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/adam.h"
#include "ops/ema.h"
#include "optim/muon_plan.h"
#include "optim/update.h"
#include "train/step/step_agreement.h"

namespace reigen {
namespace {

// Compression runs during backward and during the wait for other ranks; its time is subtracted from
// both spans.
void add_exchange_spans(const Exchange& exchange, double waited, StepResult& result) {
  const double during_backward = exchange.ready_seconds();
  const double while_waiting = exchange.compute_seconds() - during_backward;
  for (auto& [name, seconds] : result.spans) {
    if (name == "backward") seconds -= during_backward;
  }
  result.spans.emplace_back("compression", during_backward + while_waiting);
  result.spans.emplace_back("communication", waited - while_waiting);
  result.communication = exchange.communication();
}

}  // namespace

// Collected compressor states and moments, with the run's weights.
class CpuStepper::CpuSnapshot : public Snapshot {
 public:
  explicit CpuSnapshot(CpuStepper& stepper) : stepper_(stepper), shared_(collected(stepper)) {}
  ~CpuSnapshot() override { end(); }

  bool own_moments() const override {
    return stepper_.shards_ || (stepper_.exchange_ && stepper_.exchange_->between_outer_steps());
  }
  void end() override {
    if (std::exchange(ended_, true)) return;
    shared_.end();
    if (stepper_.shards_) stepper_.shards_->release();
  }

 private:
  // The worker's own weights are among the states that are collected, so the swap comes after it.
  static std::function<void()> collected(CpuStepper& stepper) {
    if (stepper.exchange_) stepper.exchange_->collect();
    if (stepper.shards_) stepper.shards_->collect();
    if (!stepper.exchange_) return {};
    return [&stepper] { stepper.exchange_->swap_shared(); };
  }

  CpuStepper& stepper_;
  SwappedWeights shared_;
  bool ended_ = false;
};

CpuStepper::CpuStepper(const Device& device, Transformer& model, const TrainOptions& options,
                       TrainState& state, Job& job)
    : device_(device),
      model_(model),
      options_(options),
      state_(state),
      job_(job),
      exchange_(job.alone()
                    ? nullptr
                    : std::make_unique<Exchange>(job, device, model.layout(),
                                                 static_cast<uint64_t>(options.seed), state)),
      shards_(job.alone() || !options.workers.shard_optimizer
                  ? nullptr
                  : std::make_unique<MomentShards>(job, state)),
      frozen_(model.layout(), options.tune.freeze),
      plan_(frozen_.without_frozen(muon_plan(model.layout(), options.optimizer))),
      weights_(state.parameters),
      gradient_(model.layout().elements()) {
  if (job.alone()) drop_worker_states(state);
  if (shards_) plan_.rest = {{0, state.first_moment.size()}};
}

double CpuStepper::lap(const char* name) {
  if (timeline_ != nullptr) timeline_->lap(name);
  return watch_.lap();
}

// Frozen parameters have no gradient: neither the norm nor other ranks count them.
void CpuStepper::clear_frozen(size_t elements) {
  frozen_.visit(cleared_, elements, [&](ElementRange range) {
    std::fill_n(gradient_.begin() + static_cast<ptrdiff_t>(range.begin), range.size(), 0.0F);
  });
  cleared_ = elements;
}

// Forward and backward of all micro-batches; the exchange begins during the last backward.
void CpuStepper::accumulate(const ReadyBatch& ready) {
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  if (exchange_) exchange_->begin(result_.step, gradient_);
  const bool local = exchange_ && exchange_->local();
  const uint64_t tokens = averaged_tokens(ready, local);
  sums_ = {};
  cleared_ = 0;
  double forward = 0;
  double loss = 0;
  double backward = 0;
  const bool elastic = job_.elastic();
  if (elastic && ready.micro_batches.empty()) exchange_->sum_losses({});
  for (const PackedBatch& micro : ready.micro_batches) {
    if (elastic) job_.check(job_.membership()->group().status());  // ends the step at once
    const bool last = &micro == &ready.micro_batches.back();
    Transformer::StepEvents events;
    events.forward_done = [&] { forward += lap("forward"); };
    events.loss_done = [&](const LossSums& more) {
      loss += lap("loss");
      if (!elastic || !last) return;
      exchange_->sum_losses({sums_.smoothed + more.smoothed, sums_.nll + more.nll});
    };
    if (exchange_ && !local && last) {
      events.ready = [&](size_t elements) {
        clear_frozen(elements);
        exchange_->ready(elements);
      };
    }
    const LossSums more =
        model_.forward_backward(device_,
                                {.batch = micro,
                                 .seed = static_cast<uint64_t>(options_.seed),
                                 .step = result_.step,
                                 .loss_scale = 1.0F / static_cast<float>(tokens),
                                 .smoothing = static_cast<float>(options_.smoothing)},
                                weights_, gradient_, arena_, events);
    backward += lap("backward");
    sums_.smoothed += more.smoothed;
    sums_.nll += more.nll;
  }
  clear_frozen(gradient_.size());
  result_.spans = {{"forward", forward}, {"loss", loss}, {"backward", backward}};
}

void CpuStepper::update() {
  AdamStep adam = adam_constants(options_.optimizer);
  adam.rate = result_.rate;
  adam.step = ++state_.counters.updates;
  adam.gradient_scale = clip_factor(result_.norm, options_.optimizer.clip);
  std::span<float> gradient = gradient_;
  std::span<float> parameters = state_.parameters;
  if (shards_) {
    gradient = shards_->own_of(gradient);
    parameters = shards_->own_of(parameters);
  }
  for (const ElementRange& range : plan_.rest) {
    auto of = [&range](std::span<float> all) { return all.subspan(range.begin, range.size()); };
    adam_step(device_, adam, of(gradient), of(parameters), of(state_.first_moment),
              of(state_.second_moment));
  }
  if (plan_.matrices.empty()) return;
  MuonStep muon = muon_constants(options_.optimizer);
  muon.rate = options_.optimizer.muon_ratio * adam.rate;
  muon.gradient_scale = adam.gradient_scale;
  muon_step(device_, muon, plan_.matrices, gradient, parameters, state_.first_moment);
}

// Also after a skipped step, as on a GPU, where the host does not know yet whether a step is
// skipped.
void CpuStepper::update_average() {
  const uint64_t steps = exchange_ ? exchange_->steps_with_shared_weights() : 1;
  if (state_.average.empty() || steps == 0) return;
  ema_step(device_, ema_weight(options_.ema_decay, result_.step, steps), state_.parameters,
           state_.average);
}

void CpuStepper::start(const ReadyBatch& ready) {
  watch_ = {};
  ++under_way_;
  reduced_ = false;
  result_ = planned_step(options_.schedule, state_.choices.decay, state_.counters.step + 1, ready);
  accumulate(ready);
  waited_ = 0;
  if (exchange_) {
    exchange_->finish();
    reduced_ = job_.elastic();
    waited_ += lap("wait for gradients");
  }
  result_.norm = global_norm(device_, gradient_);
  updating_ = lap("norm");
  bool all_finite = std::isfinite(result_.norm);
  double min_wait = 0;
  if (exchange_) {
    const StepAgreement agreed =
        agree_on_step(job_, sums_, all_finite, waited_ + std::exchange(waited_after_, 0));
    sums_ = agreed.sums;
    all_finite = all_finite && agreed.all_finite;
    min_wait = agreed.min_wait_seconds;
    waited_after_ = lap("agree");
    waited_ += waited_after_;
  }
  commit(all_finite);
  if (exchange_) result_.communication->min_wait = min_wait;
}

void CpuStepper::commit(bool all_finite) {
  reduced_ = false;
  const auto tokens = static_cast<double>(result_.target_tokens);
  result_.loss = sums_.smoothed / tokens;
  result_.nll = sums_.nll / tokens;
  result_.skipped = !all_finite || !std::isfinite(result_.loss);
  if (exchange_) exchange_->commit();
  if (!result_.skipped) update();
  updating_ += lap("optimizer");
  if (exchange_) {
    if (exchange_->local()) exchange_->after_update();
    if (shards_ && !result_.skipped) shards_->share_parameters();
    const double synchronising = lap("synchronise");
    waited_after_ += synchronising;
    waited_ += synchronising;
    add_exchange_spans(*exchange_, waited_, result_);
  }
  update_average();
  count_step(state_.counters, result_);
  result_.spans.emplace_back("optimizer", updating_ + watch_.lap());
}

void CpuStepper::roll_forward() {
  watch_ = {};
  waited_after_ = updating_ = 0;
  sums_ = exchange_->losses();
  result_.norm = global_norm(device_, gradient_);
  commit(std::isfinite(result_.norm));
}

void CpuStepper::abandon() {
  if (std::exchange(under_way_, 0) == 0) return;
  reduced_ = false;
  waited_after_ = 0;
  if (exchange_) exchange_->restore();
}

StepResult CpuStepper::finish() {
  --under_way_;
  return std::move(result_);
}

SwappedWeights CpuStepper::shared_weights() {
  if (!exchange_) return SwappedWeights({});
  return SwappedWeights([this] { exchange_->swap_shared(); });
}

SwappedWeights CpuStepper::averaged_weights() {
  return SwappedWeights([this] {
    const bool own = weights_.master == state_.parameters.data();
    weights_ = Weights(own ? state_.average : state_.parameters);
  });
}

std::unique_ptr<Snapshot> CpuStepper::snapshot() { return std::make_unique<CpuSnapshot>(*this); }

}  // namespace reigen
