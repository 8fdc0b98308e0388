// `reigen attach`: shows a run that trains in the background.
#include "cli/commands.h"
#include "train/run/background.h"

namespace reigen {

void run_attach(const AttachOptions& options) { attach(options.run); }

}  // namespace reigen
