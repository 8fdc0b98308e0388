#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "ops/adam.h"
#include "train/stepper.h"

namespace reigen {

StepRunner::StepRunner(const Device& device, Transformer& model, const TrainOptions& options)
    : device_(device), model_(model), options_(options), gradients_(model.layout().elements()) {}

LossSums StepRunner::accumulate(const TrainState& state, const ReadyBatch& ready,
                                StepRecord& record) {
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
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
    const LossSums more =
        model_.forward_backward(device_,
                                {.batch = part,
                                 .seed = static_cast<uint64_t>(options_.seed),
                                 .step = record.step,
                                 .loss_scale = 1.0F / static_cast<float>(ready.batch.target_tokens),
                                 .smoothing = static_cast<float>(options_.smoothing)},
                                parameters, gradients_, arena_, events);
    backward += watch.lap();
    sums.smoothed += more.smoothed;
    sums.nll += more.nll;
  }
  record.spans = {{"forward", forward}, {"loss", loss}, {"backward", backward}};
  return sums;
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
  adam_step(device_, adam, gradients_, state.parameters, state.first_moment, state.second_moment);
}

StepRecord StepRunner::run(TrainState& state, const ReadyBatch& ready) {
  Counters& counters = state.counters;
  StepRecord record = record_of(options_, counters.step + 1, ready);
  const LossSums sums = accumulate(state, ready, record);
  const auto tokens = static_cast<double>(ready.batch.target_tokens);
  record.loss = sums.smoothed / tokens;
  record.nll = sums.nll / tokens;
  Stopwatch watch;
  record.norm = global_norm(device_, gradients_);
  record.skipped = !std::isfinite(record.loss) || !std::isfinite(record.norm);
  if (!record.skipped) update(state, record);
  record.spans.emplace_back("optimizer", watch.lap());

  count_step(counters, record, ready.batch.end);
  return record;
}

}  // namespace reigen
