// The weights of corpora by a temperature.
#pragma once

#include <vector>

#include "data/manifest.h"

namespace reigen {

// Raises the weights of small languages, or of small corpora in a dataset without tags: one with n
// weighted pairs is then seen in proportion to n^(1/temperature). The largest keeps its weight, and
// so do all at temperature 1; corpora of one language keep their proportions.
void even_out(std::vector<CorpusFacts>& corpora, double temperature);

}  // namespace reigen
