// Checks before and after the work of `reigen prepare`: inputs that can be read, and a result that
// a model can learn from.
#pragma once

#include "config/prepare_options.h"
#include "data/manifest.h"
#include "text/vocabulary.h"

namespace reigen {

// Finds a missing or misplaced file before hours of work on the files before it. A pipe can be
// opened only once, so no file is opened here.
void check_inputs(const PrepareOptions& options);

// Throws DataError with the number of pairs that each rule dropped.
[[noreturn]] void throw_nothing_left(const Manifest& manifest);

// A vocabulary of a different text makes a dataset that looks fine and trains nothing: many unknown
// pieces are a warning, or a DataError.
void check_unknown(const Manifest& manifest, const Vocabulary& vocabulary);

}  // namespace reigen
