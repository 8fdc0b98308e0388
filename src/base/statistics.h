// Robust averages of measurements.
#pragma once

#include <vector>

namespace reigen {

// The mean of the two middle values if their number is even; 0 for no values.
double median(std::vector<double> values);

}  // namespace reigen
