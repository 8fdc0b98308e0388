// A recipe chooses the options of a run that the user does not give: optimizer, schedule, dropout,
// batch and number of steps. The numbers are in config/recipe_table.h.
#pragma once

#include <cstdint>
#include <string>

#include "config/schedule_options.h"
#include "config/train_options.h"

namespace reigen {

// An epoch of the training set.
struct CorpusSize {
  double pairs = 0;
  double target_tokens = 0;  // ends of sentences included
};

// Chooses options by `options.recipe`. Options that are given stay as they are, and so do all of
// options that no schema has parsed (`given` is empty). The choices are written to
// `options.chosen`, for the log.
void apply_recipe(TrainOptions& options, const CorpusSize& corpus);

// The same for the curve of `reigen schedule`, which has no corpus: that of a medium one.
void apply_recipe(ScheduleCommandOptions& options);

}  // namespace reigen
