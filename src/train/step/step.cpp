#include "train/step/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/adam.h"
#include "train/step/stepper.h"

namespace reigen {

namespace {

// Compressing happens inside of backward and of the wait for others, and is told apart from both.
void note_exchange(const Exchange& exchange, double waited, StepRecord& record) {
  const double early = exchange.ready_seconds();
  const double late = exchange.compute_seconds() - early;
  for (auto& [name, seconds] : record.spans) {
    if (name == "backward") seconds -= early;
  }
  record.spans.emplace_back("compression", early + late);
  record.spans.emplace_back("communication", waited - late);
  record.communication = exchange.communication();
}

}  // namespace

StepRunner::StepRunner(const Device& device, Transformer& model, const TrainOptions& options,
                       Job* job, Exchange* exchange, MomentShards* shards)
    : device_(device),
      model_(model),
      options_(options),
      job_(job),
      exchange_(exchange),
      shards_(shards) {
  for (size_t i = 0; i < (exchange_ != nullptr ? 2 : 1); ++i) {
    gradients_[i].resize(model.layout().elements());
  }
}

double StepRunner::lap(Stopwatch& watch, const char* name) {
  if (timeline_ != nullptr) timeline_->lap(name);
  return watch.lap();
}

LossSums StepRunner::accumulate(const TrainState& state, const ReadyBatch& ready,
                                StepRecord& record, Stopwatch& watch) {
  if (exchange_ != nullptr) turn_ = 1 - turn_;
  std::fill(gradients().begin(), gradients().end(), 0.0F);
  if (exchange_ != nullptr) exchange_->begin(record.step, gradients());
  const bool local = exchange_ != nullptr && exchange_->local();
  const uint64_t tokens = local ? own_target_tokens(ready) : ready.batch.target_tokens;
  std::span<float> parameters(const_cast<float*>(state.parameters.data()), state.parameters.size());
  LossSums sums;
  double forward = 0;
  double loss = 0;
  double backward = 0;
  for (const PackedBatch& part : ready.parts) {
    Transformer::StepEvents events;
    events.forward_done = [&] { forward += lap(watch, "forward"); };
    events.loss_done = [&] { loss += lap(watch, "loss"); };
    if (exchange_ != nullptr && !local && &part == &ready.parts.back()) {
      events.ready = [&](size_t elements) { exchange_->ready(elements); };
    }
    const LossSums more =
        model_.forward_backward(device_,
                                {.batch = part,
                                 .seed = static_cast<uint64_t>(options_.seed),
                                 .step = record.step,
                                 .loss_scale = 1.0F / static_cast<float>(tokens),
                                 .smoothing = static_cast<float>(options_.smoothing)},
                                parameters, gradients(), arena_, events);
    backward += lap(watch, "backward");
    sums.smoothed += more.smoothed;
    sums.nll += more.nll;
  }
  record.spans = {{"forward", forward}, {"loss", loss}, {"backward", backward}};
  return sums;
}

// With all others: the loss, whether to stop, whether anybody's gradient is not finite, and how
// long each waited for the gradients: who waited least came last, and the others waited for it
// beyond that. Only step by step can this be told: over many, everybody is late now and then.
void StepRunner::agree(LossSums& sums, StepRecord& record, double waited) {
  constexpr size_t kFirstWait = 3;
  std::vector<double> values(kFirstWait + static_cast<size_t>(job_->size()));
  values[0] = sums.smoothed;
  values[1] = sums.nll;
  values[2] = std::isfinite(record.norm) ? 0.0 : 1.0;
  values[kFirstWait + static_cast<size_t>(job_->rank())] = waited;
  job_->sum_and_agree(values);
  sums = {values[0], values[1]};
  record.skipped = values[2] > 0;
  least_wait_ = *std::min_element(values.begin() + kFirstWait, values.end());
}

void StepRunner::update(TrainState& state, const StepRecord& record) {
  const OptimizerOptions& o = options_.optimizer;
  AdamStep adam;
  adam.rate = record.rate;
  adam.beta1 = o.beta1;
  adam.beta2 = o.beta2;
  adam.epsilon = o.epsilon;
  adam.weight_decay = o.kind == OptimizerKind::kAdamW ? o.weight_decay : 0;
  adam.step = ++state.counters.updates;
  if (o.clip > 0 && record.norm > o.clip) adam.gradient_scale = o.clip / record.norm;
  std::span<float> gradient = gradients();
  std::span<float> parameters = state.parameters;
  if (shards_ != nullptr) {
    gradient = shards_->own_of(gradient);
    parameters = shards_->own_of(parameters);
  }
  adam_step(device_, adam, gradient, parameters, state.first_moment, state.second_moment);
}

StepRecord StepRunner::run(TrainState& state, const ReadyBatch& ready) {
  Stopwatch watch;
  Counters& counters = state.counters;
  StepRecord record = record_of(options_, counters.step + 1, ready);
  LossSums sums = accumulate(state, ready, record, watch);
  double waited = 0;
  if (exchange_ != nullptr) {
    exchange_->finish();
    waited += lap(watch, "wait for gradients");
  }
  record.norm = global_norm(device_, gradients());
  double updating = lap(watch, "norm");
  if (exchange_ != nullptr) {
    agree(sums, record, waited + std::exchange(waited_after_, 0));
    waited_after_ = lap(watch, "agree");
    waited += waited_after_;
  }
  const auto tokens = static_cast<double>(ready.batch.target_tokens);
  record.loss = sums.smoothed / tokens;
  record.nll = sums.nll / tokens;
  record.skipped = record.skipped || !std::isfinite(record.loss) || !std::isfinite(record.norm);
  if (!record.skipped) update(state, record);
  updating += lap(watch, "optimizer");
  if (exchange_ != nullptr) {
    if (exchange_->local()) exchange_->after_update();
    if (shards_ != nullptr && !record.skipped) shards_->share_parameters();
    const double meeting = lap(watch, "meet");
    waited_after_ += meeting;
    waited += meeting;
    note_exchange(*exchange_, waited, record);
    record.communication->min_wait = least_wait_;
  }
  count_step(counters, record, ready.batch.end);
  record.spans.emplace_back("optimizer", updating + watch.lap());
  return record;
}

}  // namespace reigen
