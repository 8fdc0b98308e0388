// Where training loss rose along a run, and whether it came back: spikes, and runs that diverged
// without a loss that is not finite.
#pragma once

#include <vector>

#include "observe/record/run_summary.h"

namespace reigen {

struct LossRise {
  double step = 0;    // first of the higher losses
  double end = 0;     // first step at which it was back; 0: it never was
  double before = 0;  // lowest mean training loss before
  double after = 0;   // mean while it lasts
  // Gradient norm before clipping, over the blocks of the lowest loss, and while the rise lasts.
  double norm_before = 0;
  double norm_after = 0;
  bool lasts() const { return end == 0; }
};

// In the order of their steps. Training loss is that of blocks of a hundredth of the run; a batch
// that is harder than others is no rise.
std::vector<LossRise> loss_rises(const RunSummary& run);

}  // namespace reigen
