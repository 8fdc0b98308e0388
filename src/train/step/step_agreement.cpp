#include "train/step/step_agreement.h"

#include <algorithm>
#include <vector>

namespace reigen {

// The shortest wait is taken step by step: over many steps every rank is late now and then.
StepAgreement agree_on_step(Job& job, const LossSums& mine, bool finite, double waited) {
  constexpr size_t kFirstWait = 3;  // then one column for each rank
  std::vector<double> values(kFirstWait + static_cast<size_t>(job.size()));
  values[0] = mine.smoothed;
  values[1] = mine.nll;
  values[2] = finite ? 0.0 : 1.0;
  values[kFirstWait + static_cast<size_t>(job.rank())] = waited;
  job.sum_and_agree(values);
  return {.sums = {values[0], values[1]},
          .all_finite = values[2] == 0,
          .min_wait_seconds = *std::min_element(values.begin() + kFirstWait, values.end())};
}

}  // namespace reigen
