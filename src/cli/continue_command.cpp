// `reigen continue`: lets a paused worker of an elastic job continue without the others.
#include "cli/commands.h"
#include "dist/members/continue_request.h"

namespace reigen {

void run_continue(const ContinueOptions& options) {
  request_continue(static_cast<pid_t>(options.process));
}

}  // namespace reigen
