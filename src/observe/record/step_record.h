// The records of steps: one step of rank 0, and sums over some steps of the other ranks.
//
// A new number is a member and its row in the table below; measured on all ranks, a member of both
// structs and a row in rank_fields. JSON, rollup and TensorBoard follow from the row, and the list
// of spans in the report from kStepSpans; any other number is shown by the report only if a line of
// report/answers_*.cpp reads it. `.since()` names the version of a field that older logs lack.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/clock.h"
#include "observe/record/field.h"

namespace reigen {

// A part of a step's time: a column of the rollup and a name in "spans".
struct StepSpan {
  std::string_view name;
  const char* help;
};
inline constexpr std::array kStepSpans = {
    StepSpan{"input", "waiting for the next batch"},
    StepSpan{"forward", "forward pass without the loss"},
    StepSpan{"loss", "projection to the vocabulary, softmax and loss"},
    StepSpan{"backward", "backward pass"},
    StepSpan{"compression", "rounding or factoring gradients before they are sent"},
    StepSpan{"communication", "waiting for gradients of other workers after the backward pass"},
    StepSpan{"optimizer", "gradient norm, clipping and update of the weights"},
    StepSpan{"observe", "writing logs and records of the previous step"}};

// Communication of one worker in a step.
struct CommunicationTimes {
  double min_wait = 0;
  double busy = 0;
  double hidden = 0;
  double hidden_at_best = 0;
  uint64_t sent = 0;
  uint64_t inter_node_bytes = 0;
  bool operator==(const CommunicationTimes&) const = default;

  static constexpr auto fields() {
    using R = CommunicationTimes;
    return std::tuple{
        field(&R::min_wait, "min_wait", kSeconds,
              "shortest wait for gradients of any rank in this step: network time, as opposed to "
              "waiting for a straggler")
            .was("least")
            .over_steps(Combine::kSum),
        field(&R::busy, "busy", kSeconds, "time in which the network had gradients to transfer")
            .over_steps(Combine::kSum),
        field(&R::hidden, "hidden", kSeconds, "part of busy that overlaps with the backward pass")
            .over_steps(Combine::kSum),
        field(&R::hidden_at_best, "hidden_at_best", kSeconds,
              "largest possible value of hidden: every bucket sent as soon as it was complete")
            .was("hideable")
            .over_steps(Combine::kSum),
        field(&R::sent, "sent", kBytes, "payload that this worker sent").over_steps(Combine::kSum),
        field(&R::inter_node_bytes, "inter_node_bytes", kBytes,
              "inter-node part of sent: to other hosts")
            .was("sent_away")
            .over_steps(Combine::kSum)};
  }
};

// Fields that each rank measures in a step: rank 0 writes them in every step record, the other
// ranks in a span record as the sum of some steps (`combine` = kSum).
template <class R>
constexpr auto rank_fields(Combine combine) {
  return std::tuple{
      field(&R::seconds, "seconds", kSeconds, "wall time")
          .over_steps(Combine::kSum)
          .scalar("train/step_seconds"),
      field(&R::descheduled_seconds, "descheduled_seconds", kSeconds,
            "time in which the process was descheduled: CPU quota, stop signal, paused VM")
          .was("held_seconds")
          .omitted_when_empty()
          .over_steps(combine),
      field(&R::spans, "spans", kSeconds, "parts of the wall time, by name of the span")
          .over_steps(combine)
          .scalar("step seconds/"),
      field(&R::communication, "communication", kNoUnit,
            "exchange between workers; absent for one worker")
          .over_steps(combine)};
}

struct StepRecord {
  uint64_t step = 0;
  double time = unix_now();
  double epoch = 0;
  double loss = 0;
  double nll = 0;
  double rate = 0;
  double norm = 0;
  uint64_t source_tokens = 0;
  uint64_t target_tokens = 0;
  uint64_t pairs = 0;
  uint64_t micro_batches = 0;
  double loss_scale = 0;
  bool skipped = false;
  double writing_seconds = 0;
  double seconds = 0;
  double descheduled_seconds = 0;
  Spans spans;
  std::optional<CommunicationTimes> communication;
  bool operator==(const StepRecord&) const = default;

  bool updated() const { return std::isfinite(loss) && !skipped; }
  double writing_share() const { return seconds > 0 ? writing_seconds / seconds : 0; }

  static constexpr RecordKind kKind = {"step", "One optimizer step. Only in the log of rank 0."};
  static constexpr auto fields() {
    using R = StepRecord;
    return std::tuple_cat(
        std::tuple{field(&R::step, "step", kCount, "number of the step, from 1"),
                   field(&R::time, "time", kUnixTime, "end of the step").over_steps(Combine::kMax),
                   field(&R::epoch, "epoch", kEpochs,
                         "passes over the training pairs; 1.25: a quarter "
                         "into the second")
                       .over_steps(Combine::kMax)
                       .scalar("train/epoch"),
                   field(&R::loss, "loss", kNats, "label-smoothed cross-entropy")
                       .over_steps(Combine::kSumOfUpdates)
                       .scalar("train/loss"),
                   field(&R::nll, "nll", kNats, "negative log-likelihood, without smoothing")
                       .over_steps(Combine::kSumOfUpdates)
                       .scalar("train/nll"),
                   field(&R::rate, "rate", kNoUnit, "learning rate")
                       .over_steps(Combine::kSum)
                       .scalar("train/learning_rate"),
                   field(&R::norm, "norm", kNoUnit, "gradient norm before clipping")
                       .over_steps(Combine::kSumOfUpdates)
                       .scalar("train/gradient_norm"),
                   field(&R::source_tokens, "source_tokens", kTokens, "source tokens of the batch")
                       .over_steps(Combine::kSum),
                   field(&R::target_tokens, "target_tokens", kTokens, "target tokens of the batch")
                       .over_steps(Combine::kSum),
                   field(&R::pairs, "pairs", kCount, "sentence pairs of the batch")
                       .over_steps(Combine::kSum),
                   field(&R::micro_batches, "micro_batches", kCount,
                         "micro-batches of rank 0, which go through the model one after another"),
                   field(&R::loss_scale, "loss_scale", kNoUnit, "loss scale of fp16")
                       .omitted_when_empty()
                       .over_steps(Combine::kSum)
                       .scalar("train/loss_scale"),
                   field(&R::skipped, "skipped", kNoUnit,
                         "true: no update, because loss or gradient was not finite")
                       .omitted_when_empty()
                       .over_steps(Combine::kSum),
                   field(&R::writing_seconds, "writing_seconds", kSeconds,
                         "part of the step in which a checkpoint was written in the background")
                       .since("0.2")
                       .omitted_when_empty()
                       .over_steps(Combine::kSum)},
        rank_fields<R>(Combine::kNone));
  }
  static constexpr auto derived() {
    using R = StepRecord;
    return std::array{
        Derived<R>{"steps", [](const R&) { return 1.0; }, Combine::kSum},
        Derived<R>{"finite", [](const R& r) { return r.updated() ? 1.0 : 0.0; }, Combine::kSum},
        // For the line seconds = a + b * writing_share() through all steps.
        Derived<R>{"seconds_squared", [](const R& r) { return r.seconds * r.seconds; },
                   Combine::kSum},
        Derived<R>{"writing_share", [](const R& r) { return r.writing_share(); }, Combine::kSum},
        Derived<R>{"writing_squared",
                   [](const R& r) { return r.writing_share() * r.writing_share(); }, Combine::kSum},
        Derived<R>{"writing_product", [](const R& r) { return r.writing_share() * r.seconds; },
                   Combine::kSum},
        Derived<R>{"slowest", [](const R& r) { return r.seconds; }, Combine::kMax},
        Derived<R>{"train/tokens_per_second",
                   [](const R& r) { return static_cast<double>(r.target_tokens) / r.seconds; },
                   Combine::kNone, [](const R& r) { return r.seconds > 0; }},
        Derived<R>{
            "network/sent_MB_per_second",
            [](const R& r) { return static_cast<double>(r.communication->sent) / r.seconds / 1e6; },
            Combine::kNone,
            [](const R& r) { return r.seconds > 0 && r.communication.has_value(); }}};
  }
};

// About one second per record, so that a log does not grow with the number of short steps.
struct SpansRecord {
  uint64_t step = 0;
  double time = unix_now();
  uint64_t steps = 0;
  double seconds = 0;
  double descheduled_seconds = 0;
  Spans spans;
  CommunicationTimes communication;
  bool operator==(const SpansRecord&) const = default;

  static constexpr RecordKind kKind = {
      "spans", "Sums over some steps of a rank other than 0, about one second."};
  static constexpr auto fields() {
    using R = SpansRecord;
    return std::tuple_cat(
        std::tuple{field(&R::step, "step", kCount, "last of these steps"),
                   field(&R::time, "time", kUnixTime, "end of the last step"),
                   field(&R::steps, "steps", kCount, "number of steps").over_steps(Combine::kSum)},
        rank_fields<R>(Combine::kSum));
  }
};

// Adds one step to the sums of a span record.
void add_step_to(SpansRecord& sum, const StepRecord& step);

}  // namespace reigen
