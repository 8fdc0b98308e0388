#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "ops/adam.h"
#include "train/stepper.h"

namespace reigen {

namespace {

Wire wire_of(WireName name) {
  switch (name) {
    case WireName::kFp32:
      return Wire::kFp32;
    case WireName::kBf16:
      return Wire::kBf16;
    case WireName::kFp16:
      return Wire::kFp16;
  }
  return Wire::kFp32;
}

// To all other workers, and of that to other machines, since they met.
std::pair<uint64_t, uint64_t> bytes_sent(Crew& crew) {
  std::pair<uint64_t, uint64_t> sent = {0, 0};
  for (const CommCounter& counter : crew.team()->group().counters()) {
    sent.first += counter.bytes_sent;
    sent.second += counter.bytes_sent_away;
  }
  return sent;
}

}  // namespace

StepRunner::StepRunner(const Device& device, Transformer& model, const TrainOptions& options,
                       Crew* crew, size_t bucket)
    : device_(device), model_(model), options_(options), crew_(crew), bucket_(bucket) {
  const bool shared = crew_ != nullptr && !crew_->alone();
  for (size_t i = 0; i < (shared ? 2 : 1); ++i) {
    gradients_[i].resize(model.layout().elements());
    if (!shared) continue;
    reducers_[i] = std::make_unique<BucketReducer>(crew_->team()->group(), gradients_[i], bucket_,
                                                   wire_of(options.workers.wire));
  }
}

LossSums StepRunner::accumulate(const TrainState& state, const ReadyBatch& ready,
                                StepRecord& record) {
  if (reducers_[1]) turn_ = 1 - turn_;
  BucketReducer* reducer = reducers_[turn_].get();
  std::fill(gradients().begin(), gradients().end(), 0.0F);
  if (reducer != nullptr) {
    sent_before_ = bytes_sent(*crew_);
    reducer->begin();
  }
  std::span<float> parameters(const_cast<float*>(state.parameters.data()), state.parameters.size());
  LossSums sums;
  double forward = 0;
  double loss = 0;
  double backward = 0;
  for (const PackedBatch& part : ready.parts) {
    Stopwatch watch;
    Transformer::StepEvents events;
    events.forward_done = [&] { forward += watch.lap(); };
    events.loss_done = [&] { loss += watch.lap(); };
    if (reducer != nullptr && &part == &ready.parts.back()) {
      events.ready = [&](size_t elements) { reducer->ready(elements); };
    }
    const LossSums more =
        model_.forward_backward(device_,
                                {.batch = part,
                                 .seed = static_cast<uint64_t>(options_.seed),
                                 .step = record.step,
                                 .loss_scale = 1.0F / static_cast<float>(ready.batch.target_tokens),
                                 .smoothing = static_cast<float>(options_.smoothing)},
                                parameters, gradients(), arena_, events);
    backward += watch.lap();
    sums.smoothed += more.smoothed;
    sums.nll += more.nll;
  }
  record.spans = {{"forward", forward}, {"loss", loss}, {"backward", backward}};
  return sums;
}

// With all others: the gradient, the loss, and whether to stop.
void StepRunner::share(LossSums& sums, StepRecord& record) {
  Stopwatch watch;
  BucketReducer& reducer = *reducers_[turn_];
  crew_->check(reducer.finish());
  double values[] = {sums.smoothed, sums.nll};
  crew_->sum_and_agree(values);
  sums = {values[0], values[1]};
  const ReduceTimes times = reducer.times();
  record.spans.emplace_back("communication", watch.seconds());
  record.communication = {.busy = times.busy, .hidden = times.hidden, .hideable = times.hideable};
  const auto [sent, away] = bytes_sent(*crew_);
  record.communication->sent = sent - sent_before_.first;
  record.communication->sent_away = away - sent_before_.second;
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
  adam_step(device_, adam, gradients(), state.parameters, state.first_moment, state.second_moment);
}

StepRecord StepRunner::run(TrainState& state, const ReadyBatch& ready) {
  Counters& counters = state.counters;
  StepRecord record = record_of(options_, counters.step + 1, ready);
  LossSums sums = accumulate(state, ready, record);
  if (reducers_[turn_]) share(sums, record);
  const auto tokens = static_cast<double>(ready.batch.target_tokens);
  record.loss = sums.smoothed / tokens;
  record.nll = sums.nll / tokens;
  Stopwatch watch;
  record.norm = global_norm(device_, gradients());
  record.skipped = !std::isfinite(record.loss) || !std::isfinite(record.norm);
  if (!record.skipped) update(state, record);
  record.spans.emplace_back("optimizer", watch.lap());

  count_step(counters, record, ready.batch.end);
  return record;
}

}  // namespace reigen
