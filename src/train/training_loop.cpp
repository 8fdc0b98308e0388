#include "train/training_loop.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "device/gpu_memory.h"
#include "train/evaluation.h"
#include "train/last_step.h"
#include "train/workers/agreements.h"
#include "train/workers/algorithm_records.h"
#include "train/writer_change.h"

namespace reigen {
namespace {

// Ranks change with the membership, a worker's number does not; logs are named by it.
std::vector<std::vector<Record>> by_worker(std::vector<std::vector<Record>> by_rank, Job& job) {
  std::vector<std::vector<Record>> all;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto number = static_cast<size_t>(job.membership()->members()[rank].id.number);
    if (all.size() <= number) all.resize(number + 1);
    all[number] = std::move(by_rank[rank]);
  }
  return all;
}

}  // namespace

TrainingLoop::TrainingLoop(AttemptParts& parts)
    : parts_(parts),
      limits_(parts.options, parts.data.train, parts.data.valid.has_value(),
              parts.state.choices.decay),
      logs_(parts.job, parts.on_gpu(), parts.opened.device.threads()),
      started_(parts.state.counters.cursor) {
  if (parts.job.elastic()) at_.forming = parts.job.membership()->forming_id();
  claim_writing(parts);
  if (parts.facts.resumed) at_.checkpoint.step = parts.state.counters.step;
}

void TrainingLoop::run() {
  if (parts_.writer) {
    parts_.facts.setup_seconds = parts_.watch.seconds();
    parts_.writer->announce(parts_.facts);
    const Decay& decay = parts_.state.choices.decay;
    if (decay.active()) parts_.writer->use_decay(decay);
    if (parts_.facts.decay_cancelled) parts_.writer->cancel_decay(parts_.state.counters.step);
  }
  at_.checkpoint.changed_since = parts_.facts.decay_cancelled;
  welcome_others();
  const StopReason reason = train(false);
  if (!left_) finish(reason);
}

void TrainingLoop::run_joined() {
  recover(CommStatus(), true);
  const StopReason reason = train(true);
  if (!left_) finish(reason);
}

StopReason TrainingLoop::train(bool begun) {
  bool started = begun;
  bool score = !begun;
  auto reason = StopReason::kNone;
  while (true) {
    try {
      if (std::exchange(score, false)) score_starting_point();
      // Once, even if a worker is lost meanwhile: then the votes of a step ask for the decay.
      if (!std::exchange(started, true)) {
        begin_due_decay(parts_.job.broadcast(requested_decay()));
        if (at_.checkpoint.changed_since) save();
        restart_clocks();
      }
      reason = advance();
      if (reason == StopReason::kNone) continue;
      if (left_) return reason;
      agree_on_end();
      return reason;
    } catch (const WorkerLost& lost) {
      try {
        recover(lost.status);
      } catch (const CommError& e) {
        if (!complete_) throw;
        log_note(format("the run is complete; the other workers are not waited for: {}", e.what()));
        return reason;
      }
      score = true;
      complete_ = complete_ && !at_.checkpoint.changed_since;
    }
  }
}

// The members of an elastic job stay until the last checkpoint is on the disk: if the writer is
// lost before, a different one writes it. A worker that returns knows that all others know it, too,
// and may leave at once; one that fails at the second barrier helps those that failed at the first,
// and no other worker needs it.
void TrainingLoop::agree_on_end() {
  if (!parts_.job.elastic()) return;
  if (parts_.writer) parts_.writer->wait_for_checkpoint();
  parts_.job.barrier();
  complete_ = true;
  parts_.job.membership()->need_no_others();
  parts_.job.barrier();
}

void TrainingLoop::score_starting_point() {
  if (parts_.state.counters.step > 0 || parts_.options.tune.from.empty()) return;
  // A loss may have left some ranks with the scores and others without: rank 0 logs them.
  if (parts_.job.elastic()) scored_ = parts_.job.broadcast(uint64_t{scored_}) != 0;
  if (scored_) return;
  try {
    evaluate_starting_point(parts_);
  } catch (const Interrupted&) {  // nothing is trained yet: the attempt ends at once
  }
  scored_ = true;
}

StopReason TrainingLoop::advance() {
  const Counters& counters = parts_.state.counters;
  Stepper& stepper = *parts_.stepper;
  const uint64_t started = counters.step + stepper.under_way();
  if (std::exchange(at_boundary_, false) || parts_.shares->due(started) ||
      parts_.replay->due(started) || limits_.boundary(started, started_, requests())) {
    while (stepper.under_way() > 0) finish_step();
    begin_due_decay(requests().decay_steps);

    StopReason reason = limits_.reason_to_stop(counters, requests());
    if (limits_.evaluation_due(counters, reason)) {
      try {
        evaluate(parts_);
        at_.checkpoint.changed_since = true;
      } catch (const Interrupted&) {  // repeated when the run is resumed
      }
      begin_due_decay(0);
      reason = limits_.reason_to_stop(counters, requests());
    }
    adapt_shares();
    if (limits_.checkpoint_due(counters, reason, at_.checkpoint, requests().save)) save();
    if (reason != StopReason::kNone) return reason;
    if (parts_.replay->due(counters.step)) {
      return repeat_changes() ? StopReason::kSignal : StopReason::kNone;
    }
    if (requests().change) {
      if (parts_.job.agreed().part > 0 && part()) return StopReason::kSignal;
      if (parts_.job.agreed().joining > 0) add_workers();
      return StopReason::kNone;
    }
    restart_clocks();
  }
  step();
  return StopReason::kNone;
}

// Starts a step and finishes as many as the stepper cannot overlap.
void TrainingLoop::step() {
  Stepper& stepper = *parts_.stepper;
  Job& job = parts_.job;
  if (parts_.traced) parts_.traced->begin(parts_.state.counters.step + stepper.under_way() + 1);
  const ReadyBatch ready = parts_.input->next();
  times_.input = spans_.lap();
  if (parts_.traced) parts_.traced->timeline().lap("input");
  const double limit = parts_.options.max_time;
  const bool late = job.first() && limit > 0 && parts_.run_seconds() >= limit;
  job.vote({.interrupted = asked_to_stop() ? 1.0 : 0.0,
            .time_over = late ? 1.0 : 0.0,
            .decay_steps = static_cast<double>(requested_decay()),
            .save = job.first() && time_to_save() ? 1.0 : 0.0,
            .joining = time_to_add() ? 1.0 : 0.0,
            .leaving = is_to_leave() ? 1.0 : 0.0,
            .part = time_to_part() ? 1.0 : 0.0});
  stepper.start(ready);
  started_ = ready.batch.end;
  while (stepper.under_way() >= stepper.most_under_way()) {
    parts_.shares->measured(ready, finish_step());
  }
}

// Logs the oldest step under way. Logging takes time from the next step, as a span of its own.
StepRecord TrainingLoop::finish_step() {
  const StepResult result = parts_.stepper->finish();
  log_step(result, since_last_step_.lap());
  if (parts_.job.alone() || result.step % static_cast<uint64_t>(parts_.options.log_every) == 0) {
    exchange_logs();
  }
  if (parts_.traced) parts_.traced->after(result.step, parts_.writer.get());
  times_.observe = spans_.lap();
  check_divergence();
  return result;
}

// Before the checkpoint of the same step, which records them.
void TrainingLoop::adapt_shares() {
  const uint64_t step = parts_.state.counters.step;
  if (!parts_.shares->due(step) || !parts_.shares->adapt(step)) return;
  if (parts_.writer) parts_.writer->shares(parts_.shares->record());
  parts_.input.reset();
  parts_.input = make_input(parts_);
}

void TrainingLoop::log_step(const StepResult& result, double seconds) {
  Counters& counters = parts_.state.counters;
  times_.seconds = seconds;
  times_.descheduled = logs_.descheduled().take();
  if (parts_.writer) times_.writing = parts_.writer->take_writing_seconds();
  spans_ = {};
  const StepRecord record = step_record(result, times_, limits_.epochs(counters.cursor));
  counters.step_seconds += record.seconds;
  if (parts_.writer) parts_.writer->step(record);
  logs_.step(record);
  if (!parts_.job.elastic() || parts_.writer) return;
  constexpr size_t kMostRecent = 1000;
  recent_.push_back(record);
  if (recent_.size() > kMostRecent) recent_.pop_front();
}

void TrainingLoop::save() {
  const Stopwatch stall;
  TrainState& state = parts_.state;
  state.counters.seconds = parts_.run_seconds();
  const std::unique_ptr<Snapshot> snapshot = parts_.stepper->snapshot();
  if (!check_same_weights(parts_.job, state, snapshot->own_moments())) snapshot->reload();
  record_algorithms(parts_.job, parts_.opened.device, parts_.writer.get());
  if (parts_.writer) parts_.writer->save(state, snapshot->source(), stall);
  snapshot->end();
  state.worker_states.clear();
  // A checkpoint that the writer has copied is completed, also if other workers are lost.
  if (parts_.writer) note_checkpoint();
  parts_.job.barrier();  // the other ranks wait for rank 0 here rather than in the next step
  note_checkpoint();
  since_checkpoint_ = {};
}

void TrainingLoop::note_checkpoint() {
  at_.checkpoint = {.step = parts_.state.counters.step};
  parts_.lacks_checkpoint = false;
}

uint64_t TrainingLoop::requested_decay() const {
  return parts_.writer ? parts_.writer->requested_decay() : 0;
}

void TrainingLoop::begin_due_decay(uint64_t requested) {
  const uint64_t step = parts_.state.counters.step;
  const DueDecay due = limits_.decay_due(parts_.state.counters, requested);
  if (due.steps == 0) return;
  Choices& choices = parts_.state.choices;
  choices.decay = {step, due.steps};
  choices.decay_limit = static_cast<uint64_t>(parts_.options.max_steps);
  at_.checkpoint.changed_since = true;
  if (parts_.writer) {
    parts_.writer->begin_decay({.step = step, .steps = due.steps, .cause = due.cause});
  }
}

// A run directory that was moved or replaced ends the attempt: its old path may already be used by
// a different one.
bool TrainingLoop::asked_to_stop() const {
  return (interrupt_requested() && !is_to_leave()) || (parts_.writer && parts_.writer->moved());
}

bool TrainingLoop::time_to_save() const {
  constexpr double kMinute = 60;  // seconds
  const double minutes = parts_.options.checkpoint.minutes;
  return minutes > 0 && since_checkpoint_.seconds() >= kMinute * minutes;
}

// Among several workers the votes of the last step count, so that all stop after the same step.
StopRequests TrainingLoop::requests() const {
  const Job& job = parts_.job;
  const auto& agreed = job.agreed();
  if (!job.alone()) {
    const bool all_leave = agreed.leaving == job.size();
    return {agreed.interrupted > 0 || all_leave, agreed.time_over > 0,
            static_cast<uint64_t>(agreed.decay_steps), agreed.save > 0,
            agreed.joining > 0 || agreed.part > 0};
  }
  const double limit = parts_.options.max_time;
  return {asked_to_stop(), limit > 0 && parts_.run_seconds() >= limit, requested_decay(),
          time_to_save(), agreed.joining > 0};
}

void TrainingLoop::exchange_logs() {
  std::vector<std::vector<Record>> records = logs_.exchange();
  claim_new_copy(parts_);
  if (!parts_.writer) return;
  if (parts_.job.elastic()) records = by_worker(std::move(records), parts_.job);
  parts_.writer->add_records(records);
}

void TrainingLoop::restart_clocks() {
  since_last_step_ = spans_ = {};
  if (parts_.writer) parts_.writer->take_writing_seconds();  // not of the next step
  times_.observe = 0;
}

void TrainingLoop::check_divergence() {
  constexpr double kLeastLossScale = 0x1p-10;
  const Counters& c = parts_.state.counters;
  const bool fp16 = parts_.opened.precision == Precision::kFp16;
  if (c.skipped_in_row >= static_cast<uint64_t>(parts_.options.optimizer.max_skipped)) {
    diverged(format("loss or gradient was not finite for {} in a row, up to step {}",
                    counted(c.skipped_in_row, "step"), c.step),
             fp16 ? "use --precision bf16 or fp32, which have more range, or lower the learning "
                    "rate, lengthen its warm-up or set optimizer.clip"
                  : "lower the learning rate, lengthen its warm-up or set optimizer.clip");
  }
  if (fp16 && c.loss_scale.scale > 0 && c.loss_scale.scale < kLeastLossScale) {
    diverged(format("the fp16 loss scale has fallen to {:.2g} by step {} and {} steps were "
                    "skipped: gradients overflow at any scale",
                    c.loss_scale.scale, c.step, c.skipped),
             "use --precision bf16 or fp32, or lower the learning rate");
  }
}

// All ranks diverge at the same step.
void TrainingLoop::diverged(const std::string& what, const std::string& advice) {
  exchange_logs();
  std::string saved = "the message of rank 0 names the last checkpoint";
  if (parts_.writer) {
    parts_.writer->end(parts_.state.counters.step, "diverged", parts_.watch.seconds());
    saved = parts_.writer->last_checkpoint();
    parts_.writer->raise(RunEvent::kDiverged, parts_.state.counters.step, what);
  }
  throw DivergedError(format("{}; {}; {}", what, saved, advice));
}

// Rank 0 gets the notices of all ranks, the others their own.
std::string TrainingLoop::preemption_notice() {
  Job& job = parts_.job;
  std::string mine = parts_.preemption ? parts_.preemption->notice() : "";
  if (job.alone()) return mine;
  const std::vector<std::string> by_rank = job.gather(mine);
  if (!job.first()) return mine;
  std::string all;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].empty()) continue;
    const std::string& host = job.membership()->control().members()[rank].host;
    all += format("{}{}: {}", all.empty() ? "" : "; ", rank_and_host(static_cast<int>(rank), host),
                  by_rank[rank]);
  }
  return all;
}

void TrainingLoop::finish(StopReason reason) {
  Counters& c = parts_.state.counters;
  logs_.stop_sampling();
  std::string notice;
  try {
    exchange_logs();
    if (reason == StopReason::kSignal) notice = preemption_notice();
    if (parts_.traced) parts_.traced->after(c.step, parts_.writer.get(), true);
    parts_.traced.reset();
    if (parts_.transport.direct) parts_.job.check(parts_.transport.direct->leave());
    parts_.job.leave();
  } catch (const WorkerLost& lost) {  // the work is done, and a checkpoint of it is written
    log_note(format("a worker ended before the others left the job: {}", lost.what()));
    parts_.job.leave();  // the others may be forming the next membership, and need not wait for it
  }
  c.seconds = parts_.run_seconds();
  if (!parts_.writer) {
    if (!notice.empty()) throw Preempted(format("stopped after step {}: {}", c.step, notice));
    return;
  }
  RunWriter& writer = *parts_.writer;
  const bool moved = reason == StopReason::kSignal && writer.moved() && !interrupt_requested();
  const char* why = !notice.empty() ? "preemption" : moved ? "moved" : text_of(reason);
  writer.finish(c.step, why, parts_.watch.seconds(), notice);
  if (moved) {
    throw IoError(
        format("the run directory {} was moved to {} or replaced while the run trained; training "
               "stopped after step {}; {}",
               parts_.options.run, writer.run().path(), c.step, writer.how_to_resume()));
  }
  if (!notice.empty()) {
    throw Preempted(
        format("stopped after step {} by a notice of preemption ({}); {}", c.step, notice,
               at_.checkpoint.step ? writer.how_to_resume() : "nothing was trained yet"));
  }
  if (reason == StopReason::kSignal) {
    throw Interrupted(
        format("stopped by a signal after step {}; {}", c.step,
               at_.checkpoint.step ? writer.how_to_resume() : "nothing was trained yet"));
  }
  log_note(format("done: {} reached", text_of(reason)));
  writer.raise(RunEvent::kFinished, c.step, format("{} reached", text_of(reason)));
  if (reason == StopReason::kMaxTime) {
    const std::string unfinished = unfinished_decay(parts_.options, c.step);
    if (!unfinished.empty()) log_warning(unfinished);
  }
  const uint64_t peak = parts_.on_gpu() ? gpu_peak_bytes() : process_memory().peak_resident_bytes;
  writer.summarise(c, limits_.epochs(c.cursor), parts_.watch.seconds(), static_cast<double>(peak));
}

}  // namespace reigen
