// From the optimizer's options to one update of the parameters.
#pragma once

#include "config/train_options.h"
#include "ops/adam.h"
#include "ops/muon.h"

namespace reigen {

// Adam's constants; learning rate, step and gradient scale change with each step. Weight decay is
// AdamW's only: with Muon, embeddings, gains and biases have none.
AdamStep adam_constants(const OptimizerOptions& options);

// Muon's constants; learning rate and gradient scale change with each step.
MuonStep muon_constants(const OptimizerOptions& options);

// Factor that brings a gradient of this norm down to at most `clip`; 1 where `clip` is 0.
double clip_factor(double norm, double clip);

}  // namespace reigen
