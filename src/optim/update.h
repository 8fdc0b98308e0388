// From the optimizer's options to one update of the parameters.
#pragma once

#include <cstdint>

#include "config/train_options.h"
#include "ops/adam.h"
#include "ops/muon.h"

namespace reigen {

// Adam's constants; learning rate, step and gradient scale change with each step. Weight decay is
// AdamW's only: with Muon, embeddings, gains and biases have none.
AdamStep adam_constants(const OptimizerOptions& options);

// Muon's constants; learning rate and gradient scale change with each step.
MuonStep muon_constants(const OptimizerOptions& options);

// Weight of the parameters in their moving average after a step, when `steps` steps have passed
// since it was updated last. The first steps count less: the decay is at most (1 + step) / (10 +
// step).
double ema_weight(double decay, uint64_t step, uint64_t steps = 1);

// Factor that brings a gradient of this norm down to at most `clip`; 1 where `clip` is 0.
double clip_factor(double norm, double clip);

}  // namespace reigen
