// Statistics of a few measurements.
#pragma once

#include <span>

namespace millrace {

// The value below which `fraction` of the values lie, interpolated between neighbours: 0.5 is the
// median, 0 the minimum, 1 the maximum. Reorders `values`.
// REQUIRES: values is not empty, and 0 <= fraction <= 1.
double quantile(std::span<double> values, double fraction);

}  // namespace millrace
