#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

template <class T>
[[noreturn]] void refuse(const char* key, const T& value, const std::string& why_and_fix) {
  throw ConfigError(format("schedule.{} is {}, {}", key, value, why_and_fix));
}

// NaN is not above 0 either.
void require_positive(const char* key, double value) {
  if (!(value > 0) || !std::isfinite(value)) {
    refuse(key, value, "which is not a number above 0; give one such as 0.001");
  }
}

double noam(const ScheduleOptions& o, double s) {
  const auto warmup = static_cast<double>(o.warmup_steps);
  return o.factor * std::pow(static_cast<double>(o.width), -0.5) *
         std::min(std::pow(s, -0.5), s * std::pow(warmup, -1.5));
}

uint64_t peak_after_warmup(const ScheduleOptions& o) {
  return static_cast<uint64_t>(std::max<int64_t>(o.warmup_steps, 1));
}

double peak_rate(const ScheduleOptions& o) {
  if (o.kind == ScheduleKind::kNoam) return noam(o, static_cast<double>(o.warmup_steps));
  return o.kind == ScheduleKind::kPiecewise ? o.values[0] : o.rate;
}

bool ends(ScheduleKind kind) {
  return kind == ScheduleKind::kPolynomial || kind == ScheduleKind::kCosine;
}

bool decays(ScheduleKind kind) {
  return ends(kind) || kind == ScheduleKind::kExponential ||
         kind == ScheduleKind::kInversePolynomial;
}

// From `rate` down to `least`; step decay.end() + 1 would have `least` itself.
double decayed(double rate, double least, const Decay& decay, uint64_t step) {
  if (!decay.active() || step <= decay.begin) return rate;
  if (step > decay.end()) return least;
  const auto left = static_cast<double>(decay.end() + 1 - step);
  return least + (rate - least) * left / static_cast<double>(decay.steps + 1);
}

// The curve at and after the peak.
double curve(const ScheduleOptions& o, uint64_t step) {
  const double t = static_cast<double>(step) - static_cast<double>(peak_after_warmup(o));
  const double share = decays(o.kind) ? t / static_cast<double>(o.decay_steps) : 0;
  switch (o.kind) {
    case ScheduleKind::kFixed:
      return o.rate;
    case ScheduleKind::kPiecewise: {
      auto below =
          std::lower_bound(o.boundaries.begin(), o.boundaries.end(), static_cast<int64_t>(step));
      return o.values[static_cast<size_t>(below - o.boundaries.begin())];
    }
    case ScheduleKind::kExponential:
      return o.rate * std::pow(o.decay_rate, o.staircase ? std::floor(share) : share);
    case ScheduleKind::kPolynomial:
      return o.min_rate + (o.rate - o.min_rate) * std::pow(1 - std::min(share, 1.0), o.power);
    case ScheduleKind::kCosine:
      return o.min_rate +
             (o.rate - o.min_rate) * (1 + std::cos(std::numbers::pi * std::min(share, 1.0))) / 2;
    case ScheduleKind::kInversePolynomial:
      return o.rate * std::pow(1 + share, -o.power);
    case ScheduleKind::kNoam:
      return noam(o, static_cast<double>(step));
    case ScheduleKind::kWsd:
      return decayed(o.rate, o.min_rate, planned_decay(o), step);
  }
  throw std::invalid_argument("learning_rate: not a kind of schedule");
}

void check_piecewise(const ScheduleOptions& o) {
  if (o.values.size() != o.boundaries.size() + 1) {
    throw ConfigError(
        format("schedule.values has {} rates and schedule.boundaries has {} steps; give one rate "
               "more than boundaries, such as --schedule.boundaries 1000,2000 --schedule.values "
               "1e-3,5e-4,1e-4",
               o.values.size(), o.boundaries.size()));
  }
  for (double value : o.values) require_positive("values", value);
  int64_t least = std::max<int64_t>(o.warmup_steps, 1);
  for (size_t i = 0; i < o.boundaries.size(); ++i) {
    const int64_t boundary = o.boundaries[i];
    if (i == 0 && boundary < least) {
      refuse("boundaries", boundary,
             format("before the warm-up ends at step {}; boundaries include the steps of the "
                    "warm-up, so raise it or lower schedule.warmup-steps",
                    least));
    }
    if (i > 0 && boundary <= o.boundaries[i - 1]) {
      refuse("boundaries", boundary,
             format("not above the {} before it; list the steps in rising order",
                    o.boundaries[i - 1]));
    }
  }
}

void check_decay(const ScheduleOptions& o) {
  if (o.decay_steps < 1) {
    refuse(
        "decay-steps", o.decay_steps,
        format(
            "but {} needs at least 1; give the number of steps from the end of the warm-up to {}",
            schedule_name(o.kind), ends(o.kind) ? "the lowest rate" : "the decayed rate"));
  }
  const bool rate_used = o.kind == ScheduleKind::kExponential;
  if (rate_used && !(o.decay_rate > 0 && o.decay_rate <= 1)) {
    refuse("decay-rate", o.decay_rate, "not above 0 and at most 1; 0.5 halves the rate each time");
  }
  const bool power_used =
      o.kind == ScheduleKind::kPolynomial || o.kind == ScheduleKind::kInversePolynomial;
  if (power_used) require_positive("power", o.power);
}

}  // namespace

void check_schedule(const ScheduleOptions& o) {
  const bool is_noam = o.kind == ScheduleKind::kNoam;
  if (o.warmup_steps < (is_noam ? 1 : 0)) {
    refuse("warmup-steps", o.warmup_steps,
           format("less than {}, the minimum for {}; the original Transformer run had 8000",
                  is_noam ? 1 : 0, schedule_name(o.kind)));
  }
  if (is_noam) {
    require_positive("factor", o.factor);
    if (o.width < 1)
      refuse("width", o.width, "less than 1; give the width of the model, such as 512");
  } else if (o.kind == ScheduleKind::kPiecewise) {
    check_piecewise(o);
  } else {
    require_positive("rate", o.rate);
  }
  if (decays(o.kind)) check_decay(o);
  const double peak = peak_rate(o);
  if (!is_noam && !(o.start_rate >= 0 && o.start_rate <= peak)) {
    refuse("start-rate", o.start_rate,
           format("not from 0 to the peak rate of {}; lower it or raise the peak", peak));
  }
  const bool has_least = is_noam || decays(o.kind) || o.kind == ScheduleKind::kWsd;
  if (has_least && !(o.min_rate >= 0 && o.min_rate <= peak)) {
    refuse("min-rate", o.min_rate,
           format("not from 0 to the peak rate of {}; lower it or raise the peak", peak));
  }
}

Decay planned_decay(const ScheduleOptions& o) {
  const uint64_t peak = peak_after_warmup(o);
  const auto last = static_cast<uint64_t>(o.last_step);
  if (o.kind != ScheduleKind::kWsd || last <= peak) return {};
  const auto wanted = static_cast<uint64_t>(o.decay_steps > 0 ? o.decay_steps : o.last_step / 2);
  const uint64_t steps = std::min(wanted, last - peak);
  return {last - steps, steps};
}

ScheduleOptions with_planned_decay(ScheduleOptions o) {
  if (const Decay decay = planned_decay(o); decay.active()) {
    o.decay_steps = static_cast<int64_t>(decay.steps);
  }
  return o;
}

uint64_t stalled_decay(const ScheduleOptions& o, uint64_t step) {
  const auto last = static_cast<uint64_t>(o.last_step);
  const Decay planned = planned_decay(o);
  if ((last > 0 && step >= last) || (planned.active() && step >= planned.begin)) return 0;
  const uint64_t steps =
      o.decay_steps > 0 ? static_cast<uint64_t>(o.decay_steps) : std::max<uint64_t>(step / 4, 1);
  return last > 0 ? std::min(steps, last - step) : steps;
}

double learning_rate(const ScheduleOptions& o, uint64_t step, const Decay& decay) {
  if (decay.active() && step > decay.begin) {
    const double rate = learning_rate(o, std::max<uint64_t>(decay.begin, 1));
    return decayed(rate, std::min(rate, o.min_rate), decay, step);
  }
  if (step == 0) throw std::invalid_argument("learning_rate: steps are counted from 1");
  const auto warmup = static_cast<uint64_t>(o.warmup_steps);
  if (step < warmup && o.kind != ScheduleKind::kNoam) {
    return o.start_rate +
           (peak_rate(o) - o.start_rate) * static_cast<double>(step) / static_cast<double>(warmup);
  }
  const double rate = curve(o, step);
  const bool floored = decays(o.kind) || (o.kind == ScheduleKind::kNoam && step > warmup);
  return floored ? std::max(rate, o.min_rate) : rate;
}

std::vector<Landmark> landmarks(const ScheduleOptions& o, uint64_t steps) {
  std::vector<Landmark> marks = {{1, "first step"}};
  const auto warmup = static_cast<uint64_t>(o.warmup_steps);
  if (warmup > 0) marks.push_back({warmup, "warm-up ends"});
  if (o.kind == ScheduleKind::kPiecewise) {
    for (int64_t boundary : o.boundaries) {
      marks.push_back({static_cast<uint64_t>(boundary), "boundary"});
      marks.push_back({static_cast<uint64_t>(boundary) + 1, "next value"});
    }
  }
  if (ends(o.kind)) {
    marks.push_back({peak_after_warmup(o) + static_cast<uint64_t>(o.decay_steps), "decay ends"});
  }
  if (const Decay decay = planned_decay(o); decay.active()) {
    marks.push_back({decay.begin, "decay begins"});
    marks.push_back({decay.end(), "decay ends"});
    marks.push_back({decay.end() + 1, "lowest rate"});
  }
  marks.push_back({steps, "last step"});
  std::erase_if(marks, [steps](const Landmark& mark) { return mark.step > steps; });
  std::stable_sort(marks.begin(), marks.end(),
                   [](const Landmark& a, const Landmark& b) { return a.step < b.step; });
  return marks;
}

uint64_t peak_step(const ScheduleOptions& o, uint64_t steps) {
  uint64_t best = 1;
  for (const Landmark& mark : landmarks(o, steps)) {
    if (learning_rate(o, mark.step) > learning_rate(o, best)) best = mark.step;
  }
  return best;
}

}  // namespace reigen
