// `reigen train`: alone, as one of several workers, or as the process that starts them.
#include "base/build.h"
#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/launching.h"
#include "report/live/page_token.h"
#include "train/directory/decay_request.h"
#include "train/directory/run_directory.h"
#include "train/joiner.h"
#include "train/run/background.h"
#include "train/trainer.h"
#include "train/workers/join.h"

namespace reigen {
namespace {

// Reports an error to the other workers before they notice that this one is lost. A CommError is no
// cause: it follows from a loss that they notice themselves.
void train_as_worker(TrainOptions options) {
  Job job = join_job(options, version_line());
  try {
    train(options, version_line(), job);
  } catch (const WorkerLost& lost) {  // while the run is set up nothing of it can continue
    throw job.cause_of(lost.status);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& e) {
    if (job.membership() != nullptr) job.membership()->control().report_error(e.what());
    throw;
  }
}

// The workers' command lines have no secrets; rank 0 gets the token of its page like this.
std::vector<std::string> page_secret(const TrainOptions& options) {
  const std::string token = options.dashboard ? given_page_token(options.page) : "";
  if (token.empty()) return {};
  return {std::string(kPageTokenVariable) + "=" + token};
}

WorkerCommand worker_command(const TrainOptions& options) {
  return {.name = "train",
          .arguments = options.arguments,
          .rank0_environment = page_secret(options),
          .longest_wait = options.checkpoint.wait,
          .run = options.run,
          .copy = options.checkpoint.copy_to,
          .on_event = options.on_event};
}

}  // namespace

void run_train(const TrainOptions& options) {
  if (const auto place = placed_to_join()) {
    return rejoin_running_job(options, *place, version_line());
  }
  if (options.decay_now > 0 && !started_as_worker() && is_training(options.run)) {
    check_can_request(options.run, options.decay_now);
    request_decay(options.run, options.decay_now);
    return log_note(format("asked the process that trains in {} to end the run after a decay of {}",
                           options.run, counted(static_cast<uint64_t>(options.decay_now), "step")));
  }
  if (options.workers.detach && !started_as_worker()) {
    // Before the first file of a process in the background is in the directory.
    if (starts_workers(options.workers)) restore_lost_run(worker_command(options), options.workers);
    TrainOptions attached = options;
    attached.workers.detach = false;
    std::erase(attached.arguments, "--detach");
    return run_in_background(options.run, [&] { run_train(attached); });
  }
  if (starts_workers(options.workers)) {
    launch_workers(worker_command(options), options.workers);
  } else {
    train_as_worker(options);
  }
}

}  // namespace reigen
