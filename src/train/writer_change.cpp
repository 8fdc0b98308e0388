#include "train/writer_change.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "train/run/take_over.h"

namespace reigen {
namespace {

void make_writer(AttemptParts& parts) {
  parts.writer =
      std::make_unique<RunWriter>(*parts.taken_over, parts.options, parts.data, parts.model);
}

void continue_run(AttemptParts& parts, const std::deque<StepRecord>& recent,
                  std::optional<uint64_t> saved) {
  parts.taken_over = take_over_run(parts.options.run);
  const std::vector<uint64_t> on_disk = parts.taken_over->checkpoints();
  parts.lacks_checkpoint = saved && (on_disk.empty() || on_disk.back() < *saved);
  make_writer(parts);
  const uint64_t logged = last_logged_step(parts.options.run);
  parts.writer->take_over(parts.state.counters, parts.facts, logged);
  for (const StepRecord& record : recent) {
    if (record.step > logged) parts.writer->step(record);
  }
}

// The run of the lost writer is on a host that does not answer any more.
void begin_new_directory(AttemptParts& parts) {
  constexpr size_t kShortId = 8;
  const std::string before = parts.options.run;
  if (path_exists(before)) {
    parts.options.run += "-" + parts.job.membership()->forming_id().substr(0, kShortId);
  }
  parts.taken_over = std::make_unique<RunDirectory>(parts.options.run);
  parts.run_id = make_run_id(*parts.taken_over);
  make_writer(parts);
  parts.facts.first_step = parts.state.counters.step;
  parts.facts.resumed = parts.facts.first_step > 0;
  parts.writer->open(parts.state.counters);
  parts.writer->announce(parts.facts);
  parts.earlier_run = before;
  log_warning(
      format("the run continues in {} on this host: the steps up to {} are in {} on the host "
             "of the worker that was lost",
             parts.options.run, with_commas(parts.state.counters.step), before));
}

void become_writer(AttemptParts& parts, const std::deque<StepRecord>& recent,
                   std::optional<uint64_t> saved) {
  set_quiet(parts.options.quiet);
  if (sees_run(parts.options.run, parts.run_id)) {
    continue_run(parts, recent, saved);
  } else {
    begin_new_directory(parts);
    parts.lacks_checkpoint = true;
  }
  const Decay& decay = parts.state.choices.decay;
  if (decay.active()) parts.writer->use_decay(decay);
  parts.page = serve_page(parts.options);
  if (parts.page) announce(*parts.page);
  log_note(format("this worker writes the run {} from now on", parts.options.run));
}

// Half of a new writer is none.
class WriterBefore {
 public:
  explicit WriterBefore(const AttemptParts& parts)
      : run_(parts.options.run), id_(parts.run_id), lacks_(parts.lacks_checkpoint) {}
  void restore(AttemptParts& parts) const {
    parts.page.reset();
    parts.writer.reset();
    parts.taken_over.reset();
    parts.earlier_run.clear();
    parts.options.run = run_;
    parts.run_id = id_;
    parts.lacks_checkpoint = lacks_;
  }

 private:
  std::string run_;
  std::string id_;
  bool lacks_;
};

// The next membership has a different rank 0, unless all others have failed at it, too.
[[noreturn]] void give_way(AttemptParts& parts, const Error& e) {
  parts.cannot_write = true;
  log_warning(format("this worker cannot write the run: {}; a different one is asked", e.what()));
  set_quiet(true);
  claim_writing(parts);
  const CommStatus why = CommStatus::closed("the worker with rank 0 cannot write the run");
  parts.job.membership()->group().close(why);
  throw WorkerLost(why);
}

// A disk is full, or this worker may not write there. Nothing is lost as long as all wait.
void try_to_become_writer(AttemptParts& parts, const std::deque<StepRecord>& recent,
                          std::optional<uint64_t> saved) {
  const WriterBefore before(parts);
  const Stopwatch waited;
  bool warned = false;
  while (true) {
    try {
      return become_writer(parts, recent, saved);
    } catch (const Error& e) {
      before.restore(parts);
      if (!parts.cannot_write) give_way(parts, e);
      const double limit = parts.options.checkpoint.wait;
      if (interrupt_requested() || waited.seconds() >= limit) throw;
      if (!std::exchange(warned, true)) {
        log_warning(
            format("no worker can write the run: {}; trying again for {} (--checkpoint.wait)",
                   e.what(), human_seconds(limit)));
      }
    }
    constexpr std::chrono::milliseconds kPause{200};
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void claim_writing(AttemptParts& parts) {
  if (!parts.job.elastic()) return;
  const bool writes = parts.writer != nullptr;
  parts.job.membership()->set_writing(
      {.able = !parts.cannot_write,
       .writes = writes,
       .sees_directory = writes || sees_run(parts.options.run, parts.run_id)});
}

void stop_writing(AttemptParts& parts) {
  if (!parts.writer) return;
  parts.page.reset();
  parts.writer.reset();
  parts.taken_over.reset();
  set_quiet(true);
  claim_writing(parts);
}

bool change_writer(AttemptParts& parts, const std::deque<StepRecord>& recent,
                   std::optional<uint64_t> saved) {
  Job& job = parts.job;
  if (job.first() && !parts.writer) try_to_become_writer(parts, recent, saved);
  claim_writing(parts);
  const std::string told =
      job.broadcast((parts.lacks_checkpoint ? "lacks " : "saved ") + parts.run_id);
  parts.lacks_checkpoint = told.starts_with("lacks ");
  parts.run_id = told.substr(6);
  return parts.lacks_checkpoint;
}

}  // namespace reigen
