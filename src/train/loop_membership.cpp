// The training loop's part in changes of an elastic job's membership: it continues after a loss,
// adds workers, and leaves alone.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/leave_request.h"
#include "base/terminal.h"
#include "train/joiner.h"
#include "train/training_loop.h"
#include "train/writer_change.h"

namespace reigen {

// Any worker may become the one that is asked.
void TrainingLoop::welcome_others() const {
  if (!parts_.job.elastic()) return;
  Membership& membership = *parts_.job.membership();
  membership.set_welcome(welcome_text(parts_));
  if (!parts_.job.first()) return;
  log_note(format("`reigen join {}` adds a worker, with the REIGEN_TOKEN of this job",
                  text_of(membership.standby_at())));
}

void TrainingLoop::recover(const CommStatus& why, bool formed) {
  show_status("");
  const double in_step = since_last_step_.seconds();
  const auto log = [&](const StepResult& result) { log_step(result, in_step); };
  const Recovered done = reigen::recover(parts_, why, at_, {formed, log, recent_, leaving_});
  leaving_.clear();
  since_leaving_.reset();
  at_ = done.loop;
  at_boundary_ = at_.checkpoint.changed_since;
  started_ = parts_.state.counters.cursor;
  logs_.rejoin();
  if (done.received_state) recent_.clear();  // the log has all steps so far
  if (!done.record.joined.empty() || done.received_state) {
    since_added_.emplace();
    added_in_ = done.record.seconds;
  }
  if (parts_.writer) {
    if (done.adopted_decay) {
      const bool requested = parts_.job.agreed().decay_steps > 0;
      parts_.writer->begin_decay({.step = done.adopted_decay->begin,
                                  .steps = done.adopted_decay->steps,
                                  .cause = requested ? "request" : "stalled"});
    }
    parts_.writer->membership(done.record);
    if (!parts_.state.choices.shares.empty()) parts_.writer->shares(parts_.shares->record());
  }
  welcome_others();
  restart_clocks();
}

// A worker that has not committed the step yet does so while the members settle.
void TrainingLoop::add_workers() {
  parts_.job.barrier();
  if (parts_.writer) parts_.writer->flush();  // whoever is added has none of the steps so far
  recover(CommStatus::closed("workers are added"));
}

// --replay. True if this worker has left.
bool TrainingLoop::repeat_changes() {
  const uint64_t step = parts_.state.counters.step;
  if (parts_.replay->any_leaves(step)) return part();
  await_joiners(parts_.replay->joining(step));
  add_workers();
  return false;
}

void TrainingLoop::await_joiners(size_t count) const {
  if (!parts_.job.first()) return;
  const Membership& membership = *parts_.job.membership();
  const Stopwatch waited;
  log_note(format("--replay: waits for `reigen join {}`, by {}", text_of(membership.standby_at()),
                  counted(count, "worker")));
  while (membership.waiting_joiners() < count) {
    check_interrupt();
    const double limit = parts_.options.workers.pause;
    if (limit > 0 && waited.seconds() > limit) {
      throw CommError(format("--replay: {} of {} joined within {:.3g} s (--pause)",
                             membership.waiting_joiners(), counted(count, "worker"), limit));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// However often workers come and go, the others train for most of the time.
bool TrainingLoop::time_to_add() const {
  constexpr double kTimesThePause = 10;
  if (!parts_.job.elastic() || !parts_.job.first() || parts_.replay->active()) return false;
  const double wait = std::min(parts_.options.workers.join_every, kTimesThePause * added_in_);
  if (since_added_ && since_added_->seconds() < wait) return false;
  return parts_.job.membership()->joiners_wait();
}

// SIGTERM, or a notice of preemption, concerns this worker alone.
bool TrainingLoop::is_to_leave() const {
  return parts_.job.elastic() && !parts_.job.alone() && only_this_process_is_to_end();
}

// mpirun and srun send a SIGTERM to all workers, which is a stop of the run: they have the time to
// vote for it.
bool TrainingLoop::time_to_part() {
  constexpr double kAllWithin = 1;  // seconds
  const double leaving = parts_.job.agreed().leaving;
  if (!parts_.job.elastic() || !parts_.job.first() || leaving == 0) {
    since_leaving_.reset();
    return false;
  }
  if (!since_leaving_) since_leaving_.emplace();
  return since_leaving_->seconds() > kAllWithin;
}

// Before the others continue, a worker that leaves withdraws from formings, or they would draw it
// into the next one; if one has begun already, it leaves after that.
bool TrainingLoop::part() {
  constexpr const char* kReplay = "--replay";
  Job& job = parts_.job;
  std::string mine;
  if (is_to_leave()) {
    mine = parts_.preemption ? parts_.preemption->notice() : "";
    if (mine.empty()) mine = "SIGTERM";
  } else if (parts_.replay->leaves(parts_.state.counters.step)) {
    mine = kReplay;
  }
  exchange_logs();
  const Json all = Json::parse(job.broadcast(one_line(Json(job.gather(mine)))));
  std::map<int, std::string> leaving;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto& member = job.membership()->members()[rank];
    if (all[rank] != "") leaving[member.id.number] = all[rank].get<std::string>();
  }
  if (leaving.size() == all.size() || leaving.empty()) {  // all: the next step stops the run
    job.adopt({});
    return false;
  }
  if (parts_.writer) parts_.writer->flush();  // a writer that leaves writes no more
  leaving_ = std::move(leaving);
  if (mine.empty()) {
    job.barrier();
    for (const Member& member : job.membership()->members()) {
      if (leaving_.contains(member.id.number)) job.membership()->note_left(member.rank);
    }
    recover(CommStatus::closed("a worker leaves"));
    return false;
  }
  if (!job.membership()->withdraw()) {
    recover(CommStatus::closed("a worker was lost"));
    return false;
  }
  try {
    job.barrier();
  } catch (const WorkerLost&) {  // all have committed this step, so this worker is not needed
  }
  job.membership()->leave_alone(static_cast<int>(leaving_.size()));
  left_ = true;
  show_status("");
  stop_writing(parts_);
  const uint64_t step = parts_.state.counters.step;
  log_warning(format("left the job after step {}, which the other workers continue ({})",
                     with_commas(step), mine));
  if (mine != "SIGTERM" && mine != kReplay)
    throw Preempted(format("left the job after step {}: {}", step, mine));
  return true;
}

}  // namespace reigen
