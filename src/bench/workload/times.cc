#include "bench/workload/times.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace::bench {

double TimeSampler::next() {
  switch (model_.kind) {
    case TimeModel::Kind::kConstant:
      return model_.first;
    case TimeModel::Kind::kNormal:
      return std::max(0.0, model_.first + model_.second * standard_normal());
    case TimeModel::Kind::kUniform:
      return model_.first + (model_.second - model_.first) * random_.uniform();
    case TimeModel::Kind::kGamma:
      return model_.second * standard_gamma(model_.first);
    case TimeModel::Kind::kExponential:
      return -model_.first * std::log(uniform_above_0());
    case TimeModel::Kind::kPoisson:
      return poisson(model_.first);
  }
  return 0;
}

double TimeSampler::uniform_above_0() { return 1 - random_.uniform(); }

// Box and Muller. One of the two values is enough: steps are rare.
double TimeSampler::standard_normal() {
  const double radius = std::sqrt(-2 * std::log(uniform_above_0()));
  return radius * std::cos(2 * std::numbers::pi * random_.uniform());
}

// Marsaglia and Tsang, 2000. For a shape below 1, a draw of shape + 1 is scaled down.
double TimeSampler::standard_gamma(double shape) {
  if (shape <= 0) return 0;
  if (shape < 1) return standard_gamma(shape + 1) * std::pow(uniform_above_0(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = standard_normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform_above_0()) < x * x / 2 + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

// Counts arrivals until the time is over. A large mean is first halved by drawing the time of the
// arrival in its middle, which is gamma-distributed (Ahrens and Dieter, 1974).
double TimeSampler::poisson(double mean) {
  double count = 0;
  while (mean > 16) {
    const double middle = std::floor(mean * 7 / 8);
    const double arrival = standard_gamma(middle);
    if (arrival > mean) {
      // `middle - 1` arrivals are spread evenly over the time of the last; count those in time.
      for (double i = 1; i < middle; ++i) count += random_.uniform() * arrival < mean ? 1 : 0;
      return count;
    }
    count += middle;
    mean -= arrival;
  }
  const double limit = std::exp(-mean);
  for (double product = uniform_above_0(); product > limit; product *= uniform_above_0()) ++count;
  return count;
}

}  // namespace millrace::bench
