// The learning rate of every optimizer step, as a pure function of the options and the step.
//
// Steps are counted from 1: the first update of the parameters is step 1. A schedule has no state,
// so a resumed run needs only its step number to continue exactly.
//
// Every kind but noam warms up and then follows its curve. With W = warmup_steps, P = max(W, 1) the
// step of the peak, R = rate, m = min_rate, D = decay_steps and t = s - P the steps since the peak:
//
//   warm-up             s < W: start_rate + (peak - start_rate) * s / W, so start_rate itself
//                       would be step 0, and step W has the peak exactly
//   fixed               R
//   piecewise           values[i], where i is the number of boundaries below s: values[0] up to and
//                       including step boundaries[0]. Boundaries count the warm-up's steps too
//   exponential         max(m, R * decay_rate^(t / D)); with staircase t / D is rounded down
//   polynomial          m + (R - m) * (1 - t / D)^power, and m from t = D on
//   cosine              m + (R - m) * (1 + cos(pi * t / D)) / 2, and m from t = D on
//   inverse-polynomial  max(m, R * (1 + t / D)^-power); with D = W this is R * (W / s)^power,
//                       and with power 0.5 the usual inverse square root
//   wsd                 warm-up, stable, decay: R up to step L - D, where L is the run's last step,
//                       then a straight line: m + (R - m) * (L + 1 - s) / (D + 1), which would
//                       reach m one step after L, so that the last step still learns where m is 0.
//                       D = L / 2 unless it is given, and at most L - P. Without L the rate stays
//                       at R
//   noam                factor * width^-0.5 * min(s^-0.5, s * W^-1.5), and not below m when s > W;
//                       rate and start_rate are ignored
//
// All functions expect options that went through `resolve_schedule` and `check_schedule`.
#pragma once

#include <cstdint>
#include <vector>

#include "config/schedule_options.h"

namespace reigen {

// Throws ConfigError for numbers that make no curve: too small, not rising, too few.
void check_schedule(const ScheduleOptions& options);

// A decay in a straight line, from the rate that the schedule has at step `begin`, that ends after
// `steps` more steps: the end of wsd, also after a validation loss that has stalled, or of any
// schedule by --decay-now. A run has at most one: while it lasts, and after it, a second is
// refused.
struct Decay {
  uint64_t begin = 0;  // last step before it
  uint64_t steps = 0;  // 0: no decay

  bool active() const { return steps > 0; }
  uint64_t end() const { return begin + steps; }  // its last step
};

// The decay of wsd at the end of a run; none for other kinds, and without a last step.
Decay planned_decay(const ScheduleOptions& options);

// The options with the length of the planned decay, where there is one, as decay_steps: the same
// curve, for texts.
ScheduleOptions with_planned_decay(ScheduleOptions options);

// The length of the decay after a stall at `step`: the given length, or a quarter of the steps so
// far, which makes it the last fifth of the run (10 to 20% are enough by Haegele et al. 2024). It
// ends by the run's last step, and is 0 where the planned decay has begun.
uint64_t stalled_decay(const ScheduleOptions& options, uint64_t step);

// `decay`, if it is active, replaces the curve from the step after its begin on.
double learning_rate(const ScheduleOptions& options, uint64_t step, const Decay& decay = {});

// A step at which the form of the curve changes.
struct Landmark {
  uint64_t step;
  const char* what;  // "warm-up ends"
};

// In rising order, from 1 to `steps`. Between two landmarks the rate only rises, only falls or
// stays, so the extremes of an interval are at its ends or at a landmark, and no scan of all steps
// is needed.
std::vector<Landmark> landmarks(const ScheduleOptions& options, uint64_t steps);

// The first step with the highest rate of steps 1 to `steps`.
uint64_t peak_step(const ScheduleOptions& options, uint64_t steps);

}  // namespace reigen
