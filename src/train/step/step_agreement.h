// The agreement of all ranks at the end of a step, in a single collective operation.
//
// It is the step's commit point: a rank that returns from it knows that every rank has the whole
// reduced gradient, and all ranks update their weights or all skip the step. One operation carries
// the loss, whether every gradient is finite, the votes to stop and the waiting times, so no rank
// can learn one of these for a step that the others do not commit.
#pragma once

#include "dist/members/job.h"
#include "ops/projection_loss.h"

namespace reigen {

struct StepAgreement {
  LossSums sums;                // over all ranks
  bool all_finite = true;       // the gradient norm on every rank
  double min_wait_seconds = 0;  // of the rank that waited least: it was the last to be ready
};

// `waited`: seconds this rank waited for the others since the previous agreement. Stop votes travel
// with it (Job::vote).
StepAgreement agree_on_step(Job& job, const LossSums& mine, bool finite, double waited);

}  // namespace reigen
