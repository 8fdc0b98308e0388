#include "ops/muon.h"

#include <algorithm>
#include <cmath>

namespace reigen {

double muon_scale(int64_t rows, int64_t cols) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
}

}  // namespace reigen
