// The part of `reigen inspect` that is about checkpoints and runs.
#pragma once

#include "config/options.h"

namespace reigen {

void inspect_checkpoint(const InspectOptions& options);

}  // namespace reigen
