// Which parameters Muon updates: the hidden matrices of a layout, and Adam's ranges between them.
#pragma once

#include "config/train_options.h"
#include "ops/muon.h"
#include "tensor/parameters.h"

namespace reigen {

// With `split`, a slice that holds several matrices (queries, keys and values) is updated as
// several, else as one tall matrix. Every element of the buffer, gaps included, is in one matrix or
// in one range.
MuonPlan muon_plan(const ParameterLayout& layout, bool split);

// The plan of a run. Without muon it has no matrices, and one range with all elements.
MuonPlan muon_plan(const ParameterLayout& layout, const OptimizerOptions& options);

}  // namespace reigen
