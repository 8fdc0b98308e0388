// The comparison of several runs: their differences, the effect on loss and speed, and its
// certainty.
//
// Runs that differ in nothing but their seed are repetitions: their scatter is the noise that a
// difference between other runs has to exceed. Without repetitions a difference is shown and not
// judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "report/report.h"

namespace reigen {

struct Difference {
  enum class Kind : uint8_t { kOption, kMachine, kData };
  Kind kind = Kind::kOption;
  std::string name;                 // "schedule.rate"
  std::vector<std::string> values;  // of each run
};

// A measured value of the runs of two variants.
struct Effect {
  enum class Answer : uint8_t {
    kClear,         // its 95% interval excludes zero
    kNone,          // the interval includes zero
    kCannotTell,    // one run of each, or no run repeated
    kIncomparable,  // losses of different vocabularies or validation texts
  };
  Answer answer = Answer::kCannotTell;
  double before = 0;  // means of the two variants
  double after = 0;
  double low = 0;  // the 95% interval of after - before, of all pairs together
  double high = 0;
  size_t runs_before = 0;
  size_t runs_after = 0;
};
const char* id_of(Effect::Answer answer);

// Runs that differ in their seeds only.
struct Variant {
  std::vector<size_t> runs;  // indices of the reports
  std::vector<double> losses;
  std::vector<double> speeds;
};

struct VariantPair {
  size_t base = 0;  // the variant that it is compared with
  size_t variant = 0;
  std::vector<size_t> changed;  // indices of the differences
  Effect loss;                  // best validation loss
  Effect speed;                 // target tokens per second, relative: 0.1 is 10% more
};

struct Comparison {
  std::vector<std::string> names;  // of the runs
  std::vector<std::string> paths;
  std::vector<Difference> differences;  // without the seed
  std::vector<Variant> variants;
  // Each against the first, and others that differ in one thing.
  std::vector<VariantPair> pairs;
  double loss_noise = 0;  // standard deviation between repetitions; 0: not known
  double speed_noise = 0;
  double common_step = 0;           // last step up to which all runs were evaluated
  std::vector<double> best_losses;  // of each run up to it; NaN without one
};

// At least two reports. `paths`: their run directories.
Comparison compare(const std::vector<Report>& reports, const std::vector<std::string>& paths);

// The quantile of Student's t that leaves 2.5% above it, divided by `comparisons`: of so many
// differences, 95% of the time none is beyond its own by chance.
double student_t(size_t freedom, size_t comparisons = 1);

std::vector<std::string> sentences_of(const Comparison& comparison);
Json to_json(const Comparison& comparison);

}  // namespace reigen
