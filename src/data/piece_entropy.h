// The loss of a model that knows only how often each target piece occurs.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace reigen {

// The entropy of single target pieces of `train`, end of sentence included, in nats: the loss of a
// model that has learnt nothing else. Counted over at most `most` pairs, evenly spaced.
double piece_entropy(const Dataset& train, uint64_t pieces, uint64_t most = 200'000);

}  // namespace reigen
