#include "train/trainer.h"

#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "data/manifest.h"
#include "dist/launch/restarts.h"
#include "optim/schedule.h"
#include "train/attempt_parts.h"
#include "train/directory/decay_request.h"
#include "train/run/serve_page.h"
#include "train/run/starting_point.h"
#include "train/training_loop.h"
#include "train/workers/agreements.h"
#include "train/workers/join.h"
#include "train/workers/preemption.h"
#include "train/workers/send_data.h"

namespace reigen {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void warn_of_timeline(const TrainOptions& options) {
  if (options.timeline.empty() || options.max_steps == 0) return;
  if (parse_step_range(options.timeline).last <= static_cast<uint64_t>(options.max_steps)) return;
  log_warning(
      format("--timeline {} ends after the last step of the run: it is cut at --max-steps {}",
             options.timeline, options.max_steps));
}

// The other workers get the reason, and no operation uses this worker's memory when this returns:
// the gradients are freed next.
void give_up(AttemptParts& parts, const std::string& why) {
  parts.job.give_up(why);
  if (!parts.transport.direct) return;
  parts.transport.direct->close();
  parts.transport.direct->drain();
}

// After an error of the device or the network the run can be resumed: the message explains how.
std::string with_advice(const AttemptParts& parts, const Error& e) {
  if (!parts.writer) return e.what();
  return format("{}; {}", e.what(), parts.writer->how_to_resume());
}

// A checkpoint that waits in memory for room on the disk is not lost with the attempt.
void end_attempt(AttemptParts& parts, const std::string& why) {
  log_copy_only(format("ended: {}", why));
  give_up(parts, why);
  if (parts.writer) parts.writer->wait_for_room();
}

}  // namespace

void run_attempt(AttemptParts& parts, bool joined) {
  try {
    TrainingLoop loop(parts);
    joined ? loop.run_joined() : loop.run();
  } catch (const DeviceError& e) {
    end_attempt(parts, with_advice(parts, e));
    throw DeviceError(with_advice(parts, e));
  } catch (const CommError& e) {
    // A launcher of Reigen's own raises it, also where rank 0 is the lost worker.
    if (parts.writer && !was_placed()) {
      parts.writer->raise(RunEvent::kLostWorker, parts.state.counters.step, e.what());
    }
    end_attempt(parts, with_advice(parts, e));
    throw CommError(with_advice(parts, e));
  } catch (const Error& e) {
    end_attempt(parts, e.what());
    throw;
  } catch (const std::exception& e) {
    end_attempt(parts, e.what());
    throw;
  }
}

namespace {

// A restart repeats the command line, with a decay that the job may have begun already.
void check_decay_request(TrainOptions& options, const RestartFacts& restart) {
  if (options.decay_now == 0) return;
  try {
    check_can_decay(options.run, options.decay_now, options.max_steps);
  } catch (const ConfigError&) {
    if (restart.number == 0) throw;
    options.decay_now = 0;
  }
}

}  // namespace

void train(const TrainOptions& given, const std::string& version, Job& job) {
  TrainOptions options = given;
  const RestartFacts restart = restart_facts();
  if (job.first()) {
    if (options.data.empty()) {
      throw ConfigError("--data is required: a dataset written by `reigen prepare`");
    }
    check_decay_request(options, restart);
    options.data = absolute(options.data);
    if (!options.tune.from.empty()) options.tune.from = absolute(options.tune.from);
    if (names_dataset(options.tune.old_data))
      options.tune.old_data = absolute(options.tune.old_data);
    const bool begun = path_exists(options.run + "/last");
    if (!options.tune.from.empty() && !begun) options = with_starting_point(options);
    options = resolve(with_recipe(options));
    check_schedule(options.schedule);
    if (job.elastic()) options.run = absolute(options.run);  // another worker may take it over
  }
  const int64_t decay_now = options.decay_now;
  if (job.first()) warn_of_timeline(options);
  options = shared_options(job, options);
  options.data = absolute(options.data);
  ignore_hangup();
  set_quiet(options.quiet || !job.first());
  PreemptionWatch preemption(options.preemption, job.elastic());
  if (options.workers.send_data) send_data(job, options.data);
  read_manifest(options.data);  // fails before a run directory is made
  std::optional<RunDirectory> run;
  // The workers of the attempt before may need their grace period to end.
  constexpr std::chrono::seconds kWaitAtRestart{60};
  const auto wait = restart.number > 0 ? kWaitAtRestart : std::chrono::seconds(0);
  if (job.first()) run.emplace(options.run, wait);
  std::unique_ptr<PageProcess> page;
  if (run) page = serve_page(options);
  const std::unique_ptr<AttemptParts> parts =
      prepare_attempt(options, run ? &*run : nullptr, job, version);
  parts->facts.restart = restart;
  parts->preemption = &preemption;
  if (run && decay_now > 0) request_decay(options.run, decay_now);
  if (page) announce(*page);
  run_attempt(*parts);
}

}  // namespace reigen
