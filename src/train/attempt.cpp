#include "train/attempt.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "decode/beam_search.h"
#include "device/gpu_memory.h"
#include "model/activation_memory.h"
#include "train/workers/agreements.h"
#include "train/workers/algorithm_records.h"

namespace reigen {
namespace {

constexpr uint64_t kMostEvaluatedTokens = 8192;  // at once; more gain nothing
constexpr double kLeastLossScale = 0x1p-10;

const char* text_of(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxSteps:
      return "max-steps";
    case StopReason::kMaxEpochs:
      return "max-epochs";
    case StopReason::kMaxTime:
      return "max-time";
    case StopReason::kPatience:
      return "early stopping";
    case StopReason::kSignal:
      return "signal";
    case StopReason::kNone:
      break;
  }
  return "";
}

class AtExit {
 public:
  explicit AtExit(std::function<void()> call) : call_(std::move(call)) {}
  ~AtExit() { call_(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  std::function<void()> call_;
};

}  // namespace

double Attempt::epoch_of(const Cursor& cursor) const {
  const EpochOrder order(data_.train.corpora(), static_cast<uint64_t>(options_.seed), cursor.epoch);
  return static_cast<double>(cursor.epoch) +
         static_cast<double>(cursor.position) / static_cast<double>(order.size());
}

// Among several workers what was agreed on with the last step counts, so that all stop at the same.
bool Attempt::interrupted() const {
  return job_.alone() ? interrupt_requested() : job_.agreed().interrupted > 0;
}

bool Attempt::time_over() const {
  if (!job_.alone()) return job_.agreed().time_over > 0;
  return options_.max_time > 0 && seconds() >= options_.max_time;
}

StopReason Attempt::reason_to_stop() const {
  const Counters& c = state_.counters;
  if (interrupted()) return StopReason::kSignal;
  if (options_.max_steps > 0 && c.step >= static_cast<uint64_t>(options_.max_steps)) {
    return StopReason::kMaxSteps;
  }
  if (options_.max_epochs > 0 && epoch_of(c.cursor) >= options_.max_epochs)
    return StopReason::kMaxEpochs;
  if (time_over()) return StopReason::kMaxTime;
  if (options_.eval.patience > 0 &&
      c.evaluations_without_gain >= static_cast<uint64_t>(options_.eval.patience)) {
    return StopReason::kPatience;
  }
  return StopReason::kNone;
}

// At every multiple of eval.every, and at the end of a run.
bool Attempt::evaluation_due(StopReason reason) const {
  const Counters& c = state_.counters;
  if (!data_.valid || c.step == 0 || c.evaluated_step == c.step) return false;
  if (reason == StopReason::kSignal || c.skipped_in_row > 0) return false;
  const auto every = static_cast<uint64_t>(options_.eval.every);
  return reason != StopReason::kNone || (every > 0 && c.step % every == 0);
}

void Attempt::note_scores(EvaluationRecord& record) {
  Counters& c = state_.counters;
  record.is_best_loss =
      std::isfinite(record.nll) && (!c.best_loss || record.nll < c.best_loss->value);
  if (record.is_best_loss) c.best_loss = {c.step, record.nll};
  record.is_best_bleu = record.bleu && (!c.best_bleu || *record.bleu > c.best_bleu->value);
  if (record.is_best_bleu) c.best_bleu = {c.step, *record.bleu};
  const bool gain =
      options_.eval.stop_on == StopMetric::kBleu ? record.is_best_bleu : record.is_best_loss;
  c.evaluations_without_gain = gain ? 0 : c.evaluations_without_gain + 1;
  c.evaluated_step = c.step;
  save_wanted_ = true;  // a checkpoint of this step knows that it was evaluated, and how well
}

// Searching may take what a step's activations do: they are given back while it runs.
DecodeOptions Attempt::decoding() const {
  DecodeOptions decode = options_.decode;
  if (on_gpu()) return decode;  // asks what is free
  const double room =
      activation_bytes(options_.model, data_.vocabulary.size()).of_any(memory_.micro_tokens);
  const double each =
      decoding_bytes(options_.model, data_.vocabulary.size(), options_.decode.max_ratio);
  decode.batch_tokens = std::min(decoding_tokens(opened_.device, model_, opened_.type, decode),
                                 static_cast<int64_t>(room / each) + 1);
  return decode;
}

void Attempt::evaluate() {
  show_status("");
  stepper_->release_memory();
  ValidationPlan plan{.decode = options_.eval.bleu,
                      .sentences = static_cast<size_t>(options_.eval.sentences),
                      .samples = static_cast<size_t>(options_.eval.samples),
                      .micro_tokens = std::min(memory_.micro_tokens, kMostEvaluatedTokens),
                      .options = decoding()};
  stepper_->swap_shared();
  const AtExit swap_back([this] { stepper_->swap_shared(); });
  EvaluationRecord record = validate(opened_.device, model_, stepper_->weights(), *data_.valid,
                                     data_.vocabulary, plan, &job_);
  record.step = state_.counters.step;
  share_scores(job_, record);
  note_scores(record);
  if (writer_) writer_->evaluation(record);
}

void Attempt::save() {
  const Stopwatch held;
  state_.counters.seconds = seconds();
  stepper_->collect();
  stepper_->swap_shared();
  if (!check_same_weights(job_, state_, stepper_->own_moments())) stepper_->put_state();
  keep_algorithms(job_, opened_.device, writer_.get());
  if (writer_) writer_->save(state_, stepper_->source(), held);
  stepper_->swap_shared();
  stepper_->saved();
  // The others wait for the first one here, and not in a step.
  double together[] = {0};
  job_.sum(together);
  state_.kept.clear();
  saved_step_ = state_.counters.step;
  save_wanted_ = false;
}

void Attempt::step() {
  if (traced_) traced_->begin(state_.counters.step + stepper_->under_way() + 1);
  const ReadyBatch ready = input_->next();
  input_wait_ = spans_.lap();
  if (traced_) traced_->timeline().lap("input");
  const bool late = job_.first() && options_.max_time > 0 && seconds() >= options_.max_time;
  job_.vote({interrupt_requested() ? 1.0 : 0.0, late ? 1.0 : 0.0});
  stepper_->start(ready);
  launched_ = ready.batch.end;
  while (stepper_->under_way() >= stepper_->most_under_way()) finish_step();
}

void Attempt::drain() {
  while (stepper_->under_way() > 0) finish_step();
}

// Whether anything but another step may come now. Everything that is under way is finished first.
bool Attempt::at_boundary() const {
  const uint64_t step = state_.counters.step + stepper_->under_way();
  auto due = [step](int64_t every) {
    return every > 0 && step % static_cast<uint64_t>(every) == 0;
  };
  if (interrupted() || time_over() || due(options_.eval.every) || due(options_.checkpoint.every)) {
    return true;
  }
  if (options_.max_steps > 0 && step >= static_cast<uint64_t>(options_.max_steps)) return true;
  return options_.max_epochs > 0 && epoch_of(launched_) >= options_.max_epochs;
}

void Attempt::finish_step() {
  StepRecord record = stepper_->finish();
  if (stepper_->waits()) {
    record.seconds = since_last_step_.lap();
    spans_ = {};
    record.spans.insert(record.spans.begin(), {"input", input_wait_});
    record.spans.emplace_back("observe", std::exchange(observe_, 0));
  }
  record.epoch = epoch_of(state_.counters.cursor);
  record.time = unix_now();
  record.descheduled_seconds = logs_->descheduled().take();
  state_.counters.step_seconds += record.seconds;
  tell(record);
  check_divergence();
}

// Takes part of the next step's time, and is a span of it.
void Attempt::tell(const StepRecord& record) {
  if (writer_) writer_->step(record);
  logs_->step(record);
  if (job_.alone() || record.step % static_cast<uint64_t>(options_.log_every) == 0) {
    exchange_logs();
  }
  if (traced_) traced_->after(record.step, writer_.get());
  observe_ = spans_.lap();
}

void Attempt::exchange_logs() {
  const std::vector<std::string> lines = logs_->exchange();
  if (writer_) writer_->add_lines(lines);
}

void Attempt::check_divergence() {
  const Counters& c = state_.counters;
  const bool fp16 = opened_.precision == Precision::kFp16;
  if (c.skipped_in_row >= static_cast<uint64_t>(options_.optimizer.max_skipped)) {
    diverged(format("loss or gradient was not finite for {} steps in a row, up to step {}",
                    c.skipped_in_row, c.step),
             fp16 ? "--precision bf16 or fp32 has more range; else lower the learning rate, "
                    "lengthen its warm-up or set optimizer.clip"
                  : "lower the learning rate, lengthen its warm-up or set optimizer.clip");
  }
  if (fp16 && c.loss_scale.scale > 0 && c.loss_scale.scale < kLeastLossScale) {
    diverged(format("the fp16 loss scale has fallen to {:.2g} by step {}, {} steps were skipped: "
                    "gradients overflow however little they are scaled",
                    c.loss_scale.scale, c.step, c.skipped),
             "use --precision bf16 or fp32, or lower the learning rate");
  }
}

void Attempt::diverged(const std::string& what, const std::string& advice) {
  exchange_logs();  // all see it at the same step
  std::string saved = "the first worker says where the last checkpoint is";
  if (writer_) {
    writer_->end(state_.counters.step, "diverged", watch_.seconds());
    saved = writer_->last_checkpoint();
  }
  throw DivergedError(format("{}; {}; {}", what, saved, advice));
}

void Attempt::run() {
  // What is not the run's own fault can be gone on from.
  auto with_way_on = [this](const Error& e) {
    std::string text = e.what();
    if (writer_) text += "; " + writer_->way_on();
    log_copy_only(format("ended: {}", text));
    give_up(text);
    return text;
  };
  try {
    train();
  } catch (const DeviceError& e) {
    throw DeviceError(with_way_on(e));
  } catch (const CommError& e) {
    throw CommError(with_way_on(e));
  } catch (const Error& e) {
    log_copy_only(format("ended: {}", e.what()));
    give_up(e.what());
    throw;
  } catch (const std::exception& e) {
    give_up(e.what());
    throw;
  }
}

// Before gradients that are being sent are freed.
void Attempt::give_up(const std::string& why) {
  job_.give_up(why);
  if (!transport_.direct) return;
  transport_.direct->close();
  transport_.direct->drain();
}

void Attempt::train() {
  if (writer_) writer_->announce(attempt_facts());
  logs_ = std::make_unique<RankLogs>(job_, on_gpu());
  StopReason reason = StopReason::kNone;
  since_last_step_ = spans_ = {};
  while (true) {
    if (!at_boundary()) {
      step();
      continue;
    }
    drain();
    reason = reason_to_stop();
    if (evaluation_due(reason)) {
      try {
        evaluate();
      } catch (const Interrupted&) {  // evaluated again when the run goes on
      }
      reason = reason_to_stop();
    }
    const Counters& c = state_.counters;
    // After a step that was skipped the one before is worth more, unless it is the end.
    const bool due =
        c.step % static_cast<uint64_t>(options_.checkpoint.every) == 0 && c.skipped_in_row == 0;
    const bool saved = saved_step_ == c.step;
    const bool stopping = reason != StopReason::kNone;
    if (c.step > 0 && (save_wanted_ || ((due || stopping) && !saved))) save();
    if (stopping) break;
    since_last_step_ = spans_ = {};
    observe_ = 0;
    step();
  }
  finish(reason);
}

void Attempt::finish(StopReason reason) {
  logs_->stop_sampling();
  exchange_logs();
  if (traced_) traced_->after(state_.counters.step, writer_.get(), true);
  traced_.reset();
  if (transport_.direct) job_.check(transport_.direct->leave());
  job_.leave();
  state_.counters.seconds = seconds();
  if (!writer_) return;
  const Counters& c = state_.counters;
  writer_->finish(c.step, text_of(reason), watch_.seconds());
  if (reason == StopReason::kSignal) {
    const std::string saved = saved_step_
                                  ? format("saved up to step {}, `reigen train --run {}` goes on",
                                           *saved_step_, writer_->run().path())
                                  : "nothing was trained yet";
    throw Interrupted(format("stopped by a signal after step {}; {}", c.step, saved));
  }
  log_note(format("done: {} reached", text_of(reason)));
  const uint64_t peak = on_gpu() ? gpu_peak_bytes() : process_memory().peak_resident_bytes;
  writer_->summarise(c, epoch_of(c.cursor), watch_.seconds(), static_cast<double>(peak));
}

}  // namespace reigen
