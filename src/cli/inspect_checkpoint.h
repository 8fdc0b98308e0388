// `reigen inspect` for checkpoints and runs.
#pragma once

#include "config/inspect_options.h"

namespace reigen {

void inspect_checkpoint(const InspectOptions& options);

}  // namespace reigen
