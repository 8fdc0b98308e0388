// How good a translation probably is: its expected chrF, from the mean log-probability of its
// tokens, as measured on the validation set.
//
// A fit has up to 20 knots with equally many sentences each. Expected values rise with the log-
// probability (isotonic regression); an interval holds 80% of the knot's sentences. Between knots
// values are interpolated, outside they are those of the nearest knot.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/json/json.h"
#include "base/json/json_view.h"

namespace reigen {

inline constexpr const char* kCalibration = "calibration";  // field of a checkpoint's `training`

struct ExpectedChrf {
  double expected = 0;  // chrF, 0 to 100
  double low = 0;       // of 80% of such translations, the lowest and the highest
  double high = 0;
};

class Calibration {
 public:
  // Of sentences with these mean log-probabilities and chrF; none where there are fewer than 100.
  static std::optional<Calibration> fit(std::span<const double> log_probabilities,
                                        std::span<const double> chrf);

  ExpectedChrf at(double log_probability) const;

  Json to_json() const;
  static Calibration from_json(const JsonView& json);  // throws FieldError

 private:
  struct Knot {
    double log_probability = 0;
    ExpectedChrf values;
  };
  std::vector<Knot> knots_;  // by rising log-probability, at least one
};

}  // namespace reigen
