#include "base/numbers/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>

namespace millrace {

double quantile(std::span<double> values, double fraction) {
  assert(!values.empty() && fraction >= 0 && fraction <= 1);
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto lower = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), lower, values.end());
  const double share = position - std::floor(position);
  if (share == 0) return *lower;
  const double upper = *std::min_element(lower + 1, values.end());
  return *lower + share * (upper - *lower);
}

}  // namespace millrace
