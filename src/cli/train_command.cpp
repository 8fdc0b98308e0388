// `reigen train`: hands the options to the trainer.
#include "cli/commands.h"
#include "train/trainer.h"

namespace reigen {

void run_train(const TrainOptions& options) { train(options, version_line()); }

}  // namespace reigen
