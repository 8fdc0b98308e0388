// `reigen train`: alone, as one of several workers, or as the one who starts them.
#include "cli/commands.h"
#include "cli/launching.h"
#include "train/run/background.h"
#include "train/trainer.h"
#include "train/workers/join.h"

namespace reigen {
namespace {

// A worker's end is everybody's: the others hear why before they notice that it is gone.
void train_as_worker(TrainOptions options) {
  Crew crew = join_crew(options, version_line());
  try {
    train(options, version_line(), crew);
  } catch (const std::exception& e) {
    if (crew.team() != nullptr) crew.team()->control().report_error(e.what());
    throw;
  }
}

}  // namespace

void run_train(const TrainOptions& options) {
  if (options.workers.detach && !started_as_worker()) {
    TrainOptions attached = options;
    attached.workers.detach = false;
    std::erase(attached.arguments, "--detach");
    return run_in_background(options.run, [&] { run_train(attached); });
  }
  if (starts_workers(options.workers)) {
    launch_workers("train", options.arguments, options.workers);
  } else {
    train_as_worker(options);
  }
}

}  // namespace reigen
