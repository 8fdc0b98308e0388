#include "train/writer_change.h"

#include <string>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "train/run/take_over.h"

namespace reigen {
namespace {

void make_writer(AttemptParts& parts) {
  parts.writer =
      std::make_unique<RunWriter>(*parts.taken_over, parts.options, parts.data, parts.model);
}

void continue_run(AttemptParts& parts, const std::deque<StepRecord>& recent) {
  parts.taken_over = take_over_run(parts.options.run);
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
  log_warning(
      format("the run continues in {} on this host: the steps up to {} are in {} on the host "
             "of the worker that was lost",
             parts.options.run, with_commas(parts.state.counters.step), before));
}

void become_writer(AttemptParts& parts, const std::deque<StepRecord>& recent, bool& new_directory) {
  set_quiet(parts.options.quiet);
  if (sees_run(parts.options.run, parts.run_id)) {
    continue_run(parts, recent);
  } else {
    begin_new_directory(parts);
    new_directory = true;
  }
  const Decay& decay = parts.state.choices.decay;
  if (decay.active()) parts.writer->use_decay(decay);
  parts.page = serve_page(parts.options);
  if (parts.page) announce(*parts.page);
  log_note(format("this worker writes the run {} from now on", parts.options.run));
}

}  // namespace

void claim_writing(AttemptParts& parts) {
  if (!parts.job.elastic()) return;
  const bool writes = parts.writer != nullptr;
  parts.job.membership()->set_writing(
      {.writes = writes, .sees_directory = writes || sees_run(parts.options.run, parts.run_id)});
}

bool change_writer(AttemptParts& parts, const std::deque<StepRecord>& recent) {
  Job& job = parts.job;
  bool new_directory = false;
  if (job.first() && !parts.writer) become_writer(parts, recent, new_directory);
  claim_writing(parts);
  const std::string told = job.broadcast((new_directory ? "new " : "old ") + parts.run_id);
  new_directory = told.starts_with("new ");
  parts.run_id = told.substr(4);
  return new_directory;
}

}  // namespace reigen
