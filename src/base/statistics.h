// Statistics: what a handful of measurements says.
#pragma once

#include <span>

namespace millrace {

// The value below which `fraction` of the values lie, interpolated between neighbours: 0.5 is the
// median, 0 the least, 1 the greatest. Reorders `values`. REQUIRES: values is not empty, and
// 0 <= fraction <= 1.
double quantile(std::span<double> values, double fraction);

}  // namespace millrace
