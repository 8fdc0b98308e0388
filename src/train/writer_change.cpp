#include "train/writer_change.h"

#include <algorithm>
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

FoundCopy copy_here(const AttemptParts& parts) {
  return newest_copy(parts.run_places, parts.options.run, parts.options.checkpoint.copy_to);
}

void make_writer(AttemptParts& parts) {
  parts.writer =
      std::make_unique<RunWriter>(*parts.taken_over, parts.options, parts.data, parts.model);
}

// The last step that is in the log, or the last one before those that this worker has in memory.
uint64_t continue_logs(AttemptParts& parts, const std::deque<StepRecord>& recent) {
  make_writer(parts);
  const uint64_t logged = last_logged_step(parts.options.run);
  parts.writer->take_over(parts.state.counters, parts.facts, logged);
  uint64_t next = parts.state.counters.step + 1;
  for (const StepRecord& record : recent) {
    if (record.step <= logged) continue;
    next = std::min(next, record.step);
    parts.writer->step(record);
  }
  return next - 1;
}

void continue_run(AttemptParts& parts, const std::deque<StepRecord>& recent,
                  std::optional<uint64_t> saved) {
  parts.taken_over = take_over_run(parts.options.run);
  const std::vector<uint64_t> on_disk = parts.taken_over->checkpoints();
  parts.lacks_checkpoint = saved && (on_disk.empty() || on_disk.back() < *saved);
  continue_logs(parts, recent);
}

// The run of the lost writer is on a host that does not answer any more, but this host has a
// directory that an earlier writer wrote.
void continue_earlier_directory(AttemptParts& parts, const std::deque<StepRecord>& recent,
                                const FoundCopy& found) {
  const std::string before = parts.run_places.back().path;
  parts.options.run = found.path;
  parts.taken_over = take_over_run(found.path);
  std::erase(parts.run_places, found.earlier);
  parts.run_places.push_back({found.earlier.id, found.path});
  parts.lacks_checkpoint = true;
  const uint64_t missing = continue_logs(parts, recent);
  if (missing <= found.copy.logged) return;
  parts.earlier_run = before;
  log_warning(
      format("the run continues in {} on this host, which has its steps up to {}: steps {} to {} "
             "are in {} on the host of the worker that was lost",
             found.path, with_commas(found.copy.logged), with_commas(found.copy.logged + 1),
             with_commas(missing), before));
}

// This host has no directory of the run, and at most the second copy of a checkpoint.
void begin_new_directory(AttemptParts& parts, const FoundCopy& found) {
  constexpr size_t kShortId = 8;
  const std::string before = parts.run_places.back().path;
  if (path_exists(parts.options.run)) {
    parts.options.run += "-" + parts.job.membership()->forming_id().substr(0, kShortId);
  }
  parts.taken_over = std::make_unique<RunDirectory>(parts.options.run);
  parts.run_places.push_back({make_run_id(*parts.taken_over), parts.options.run});
  parts.lacks_checkpoint = true;
  // Until the settled step is on the disk.
  const uint64_t copied = found.copy.checkpoint;
  const bool has_copy = copied > 0 && copied < parts.state.counters.step &&
                        adopt_checkpoint(*parts.taken_over, found.path, copied);
  make_writer(parts);
  parts.facts.worker_count = static_cast<uint64_t>(parts.job.size());
  parts.facts.members = member_entries(parts.job);
  parts.facts.first_step = parts.state.counters.step;
  parts.facts.resumed = parts.facts.first_step > 0;
  parts.writer->open(parts.state.counters);
  parts.writer->announce(parts.facts);
  parts.earlier_run = before;
  log_warning(
      format("the run continues in {} on this host{}: the steps up to {} are in {} on the host "
             "of the worker that was lost",
             parts.options.run,
             has_copy ? format(", with the checkpoint of step {} from its copy {}",
                               with_commas(copied), found.path)
                      : "",
             with_commas(parts.state.counters.step), before));
}

void become_writer(AttemptParts& parts, const std::deque<StepRecord>& recent,
                   std::optional<uint64_t> saved) {
  set_quiet(parts.options.quiet);
  const std::string present = path_of_run(parts.run_places, parts.options.run);
  if (!present.empty()) {
    parts.options.run = present;
    continue_run(parts, recent, saved);
  } else {
    const FoundCopy found = copy_here(parts);
    if (found.is_run()) {
      continue_earlier_directory(parts, recent, found);
    } else {
      begin_new_directory(parts, found);
    }
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
      : run_(parts.options.run), places_(parts.run_places), lacks_(parts.lacks_checkpoint) {}
  void restore(AttemptParts& parts) const {
    parts.page.reset();
    parts.writer.reset();
    parts.taken_over.reset();
    parts.earlier_run.clear();
    parts.options.run = run_;
    parts.run_places = places_;
    parts.lacks_checkpoint = lacks_;
  }

 private:
  std::string run_;
  RunPlaces places_;
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
  WritingClaim claim{.able = !parts.cannot_write, .writes = parts.writer != nullptr};
  claim.sees_directory = claim.writes || !path_of_run(parts.run_places, parts.options.run).empty();
  if (!claim.sees_directory) claim.copy = copy_here(parts).copy;
  parts.job.membership()->set_writing(claim);
}

void claim_new_copy(AttemptParts& parts) {
  if (!parts.job.elastic() || parts.writer) return;
  const uint64_t step = step_of_copy(parts.options.checkpoint.copy_to);
  if (std::exchange(parts.copy_seen, step) != step) claim_writing(parts);
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
      job.broadcast((parts.lacks_checkpoint ? "lacks " : "saved ") + to_text(parts.run_places));
  parts.lacks_checkpoint = told.starts_with("lacks ");
  const RunPlaces before = std::exchange(parts.run_places, run_places_in(told.substr(6)));
  if (parts.run_places != before) claim_writing(parts);  // this host may see the new one
  return parts.lacks_checkpoint;
}

}  // namespace reigen
