#include "optim/update.h"

#include <algorithm>
#include <cmath>

namespace reigen {

AdamStep adam_constants(const OptimizerOptions& options) {
  AdamStep adam;
  adam.beta1 = options.beta1;
  adam.beta2 = options.beta2;
  adam.epsilon = options.epsilon;
  adam.weight_decay = options.kind == OptimizerKind::kAdamW ? options.weight_decay : 0;
  return adam;
}

MuonStep muon_constants(const OptimizerOptions& options) {
  MuonStep muon;
  muon.momentum = options.momentum;
  muon.weight_decay = options.weight_decay;
  return muon;
}

double ema_weight(double decay, uint64_t step, uint64_t steps) {
  const auto s = static_cast<double>(step);
  return 1 - std::pow(std::min(decay, (1 + s) / (10 + s)), static_cast<double>(steps));
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1; }

}  // namespace reigen
