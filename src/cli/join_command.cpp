// `reigen join`: adds this machine to a running elastic job.
#include "base/build.h"
#include "cli/commands.h"
#include "train/joiner.h"

namespace reigen {

void run_join(const JoinJobOptions& options) { join_running_job(options, version_line()); }

}  // namespace reigen
