// An evaluation of the validation set during training.
#pragma once

#include "train/attempt_parts.h"

namespace reigen {

// Scores the run's weights, records the scores in the counters and in the log. All ranks call it
// after the same step. Throws Interrupted on a signal; the evaluation is then repeated on resume.
void evaluate(AttemptParts& parts);

// Scores the weights that a run of --from begins with, before its first step, and logs them. All
// ranks call it. Throws Interrupted on a signal.
void evaluate_starting_point(AttemptParts& parts);

// Compares the scores of the current step with the best so far: sets the record's flags and the
// counters' bests, and counts evaluations without a gain in the metric that stops the run.
void note_scores(EvaluationRecord& record, StopMetric stop_on, Counters& counters);

}  // namespace reigen
