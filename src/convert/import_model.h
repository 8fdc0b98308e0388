// A Hugging Face MarianMT or Pegasus model as a checkpoint.
#pragma once

#include "config/import_options.h"
#include "model/checkpoint.h"

namespace reigen {

// Writes options.output, complete or absent; returns the facts of the checkpoint. Throws DataError
// naming the file that is missing, damaged or has no equivalent here.
CheckpointFacts import_model(const ImportOptions& options);

}  // namespace reigen
