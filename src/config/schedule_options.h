// The options of a learning-rate schedule, `schedule.*`, and of the command that shows its curve.
//
// `reigen train` and `reigen schedule` declare the same section through the same function. What a
// number means to a curve is said in optim/schedule.h; here, a 0 may stand for "the kind's own",
// and `resolve_schedule` replaces every such 0, so that past config/ all numbers are explicit.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

inline constexpr int64_t kMaxSteps = 1'000'000'000;  // of a run

enum class ScheduleKind {
  kFixed,
  kPiecewise,
  kExponential,
  kPolynomial,
  kCosine,
  kNoam,
  kInversePolynomial,
};

// The defaults are the original WMT16 run's: 2.0 * 512^-0.5 * min(s^-0.5, s * 8000^-1.5).
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kNoam;
  double rate = 0.001;
  int64_t warmup_steps = 0;  // 0: the kind's own
  double start_rate = 0;
  double min_rate = 0;
  int64_t decay_steps = 0;  // 0: the kind's own, where it has one
  double decay_rate = 0.5;
  bool staircase = false;
  double power = 0;  // 0: the kind's own
  std::vector<int64_t> boundaries;
  std::vector<double> values;
  double factor = 2;
  int64_t width = 0;  // 0: the model's
};

struct ScheduleCommandOptions {
  ScheduleOptions schedule;
  int64_t steps = 50'000;
  int64_t every = 0;
  bool json = false;
  bool csv = false;
  bool ascii = false;
  int64_t width = 80;
  int64_t height = 16;
};

void describe(Schema& schema, ScheduleOptions& options);
void describe(Schema& schema, ScheduleCommandOptions& options);

// The options with every 0 that means "the kind's own" replaced: what a run should use and record.
ScheduleOptions resolve_schedule(ScheduleOptions options, int64_t model_width);

// Keys that were given a value although the kind does not look at them, such as schedule.rate for
// noam. Worth a warning, not an error: a file may keep them while the command line changes the
// kind.
std::vector<std::string> ignored_settings(const ScheduleOptions& options);

// Keys without "schedule." that the kind of this name looks at; "kind" alone for an unknown one.
std::set<std::string> settings_of(const std::string& kind);

std::string schedule_name(ScheduleKind kind);  // "noam", as in schedule.kind

// {"kind": "noam", "warmup-steps": 8000, ...}: the kind and the settings it looks at.
Json schedule_json(const ScheduleOptions& options);

}  // namespace reigen
