// The learning rate of every optimizer step, as a pure function of the options and the step.
//
// Steps are counted from 1: the first update of the parameters is step 1. Nothing is remembered
// from one step to the next, so a resumed run needs only its step number to go on exactly as
// before.
//
// Every kind but noam warms up and then follows its curve. With W = warmup_steps, P = max(W, 1) the
// step of the peak, R = rate, m = min_rate, D = decay_steps and t = s - P the steps since the peak:
//
//   warm-up             s < W: start_rate + (peak - start_rate) * s / W, so start_rate itself is
//   one
//                       step before the first, and step W has the peak exactly
//   fixed               R
//   piecewise           values[i], where i is the number of boundaries below s: values[0] up to and
//                       including step boundaries[0]. Boundaries count the warm-up's steps too
//   exponential         max(m, R * decay_rate^(t / D)); with staircase t / D is rounded down
//   polynomial          m + (R - m) * (1 - t / D)^power, and m from t = D on
//   cosine              m + (R - m) * (1 + cos(pi * t / D)) / 2, and m from t = D on
//   inverse-polynomial  max(m, R * (1 + t / D)^-power); where D = W that is R * (W / s)^power,
//   which
//                       with power 0.5 is the usual inverse square root
//   noam                factor * width^-0.5 * min(s^-0.5, s * W^-1.5), and not below m when s > W;
//                       rate and start_rate play no part
//
// These speak of options that went through `resolve_schedule` and `check_schedule`.
#pragma once

#include <cstdint>
#include <vector>

#include "config/schedule_options.h"

namespace reigen {

// Throws ConfigError when the numbers do not make a curve: too small, not rising, not enough.
void check_schedule(const ScheduleOptions& options);

double learning_rate(const ScheduleOptions& options, uint64_t step);

// A step at which something about the curve changes.
struct Landmark {
  uint64_t step;
  const char* what;  // "warm-up ends"
};

// In rising order, from 1 to `steps`. From one to the next, the rate only rises, only falls or
// stays: extremes of any stretch are at its ends or at a landmark, and a billion steps need no
// scan.
std::vector<Landmark> landmarks(const ScheduleOptions& options, uint64_t steps);

// The first step with the highest rate of steps 1 to `steps`.
uint64_t peak_step(const ScheduleOptions& options, uint64_t steps);

}  // namespace reigen
