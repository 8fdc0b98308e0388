// The options of a learning-rate schedule, `schedule.*`, and of the command that shows its curve.
//
// `reigen train` and `reigen schedule` declare the section through the same function.
// optim/schedule.h has the formulas; here, a 0 may stand for the default of the kind, and
// `resolve_schedule` replaces these zeros, so that past config/ all numbers are explicit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/recipe_kind.h"
#include "config/schema.h"

namespace reigen {

inline constexpr int64_t kMaxSteps = 1'000'000'000;  // of a run
// The step at which --max-epochs ends a run is counted for up to so many pairs (13 seconds).
inline constexpr double kMostCountedPairs = 1e8;

enum class ScheduleKind {
  kFixed,
  kPiecewise,
  kExponential,
  kPolynomial,
  kCosine,
  kNoam,
  kInversePolynomial,
  kWsd,
};

// The defaults are the original WMT16 run's: 2.0 * 512^-0.5 * min(s^-0.5, s * 8000^-1.5).
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kNoam;
  double rate = 0.001;
  int64_t warmup_steps = 0;  // 0: the kind's default
  double start_rate = 0;
  double min_rate = 0;
  int64_t decay_steps = 0;  // 0: the kind's default, where it has one
  double decay_rate = 0.5;
  bool staircase = false;
  double power = 0;  // 0: the kind's default
  std::vector<int64_t> boundaries;
  std::vector<double> values;
  double factor = 2;
  int64_t width = 0;  // 0: the model's width
  // Last step of the run, at which the decay of wsd ends; 0: there is none yet. Not an option of
  // its own: --max-steps of a run, which may change on resume, or --steps of `reigen schedule`.
  int64_t last_step = 0;
};

struct ScheduleCommandOptions {
  Recipe recipe = Recipe::kBest;
  ScheduleOptions schedule;
  int64_t steps = 50'000;
  int64_t every = 0;
  bool json = false;
  bool csv = false;
  bool ascii = false;
  int64_t width = 80;
  int64_t height = 16;
  GivenKeys given;
  std::string chosen;  // the recipe and its corpus; empty where it chose nothing
};

void describe(Schema& schema, Recipe& recipe);
void describe(Schema& schema, ScheduleOptions& options);
void describe(Schema& schema, ScheduleCommandOptions& options);

// Replaces every 0 that stands for the kind's default: the options that a run uses and records.
ScheduleOptions resolve_schedule(ScheduleOptions options, int64_t model_width);

// Keys that have a value although the kind does not use them, such as schedule.rate for noam. Worth
// a warning, not an error: they may come from a file while the command line changes the kind.
std::vector<std::string> ignored_settings(const ScheduleOptions& options);

std::string schedule_name(ScheduleKind kind);  // "noam", as in schedule.kind

// {"kind": "noam", "warmup-steps": 8000, ...}: the kind and the settings it uses.
Json schedule_json(const ScheduleOptions& options);

}  // namespace reigen
