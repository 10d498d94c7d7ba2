// NumpyNormal: the normal numbers of numpy.random.seed(s) and numpy.random.normal(), bit for bit.
//
// DLIO draws the sizes of its files from them, so a dataset has the same files here. This is
// NumPy's legacy generator: MT19937, 53 bits of two outputs, and the polar method, which makes two
// numbers at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace millrace::bench {

class NumpyNormal {
 public:
  explicit NumpyNormal(uint32_t seed) : bits_(seed) {}

  double next(double mean, double stdev) { return mean + stdev * standard(); }

 private:
  double standard() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    double first = 0;
    double other = 0;
    double square = 0;
    do {
      first = 2 * uniform() - 1;
      other = 2 * uniform() - 1;
      square = first * first + other * other;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    second_ = factor * first;
    has_second_ = true;
    return factor * other;
  }

  double uniform() {
    const auto high = static_cast<double>(bits_() >> 5);
    const auto low = static_cast<double>(bits_() >> 6);
    return (high * 0x1p26 + low) * 0x1p-53;
  }

  std::mt19937 bits_;  // the standard defines its output, unlike that of its distributions
  double second_ = 0;
  bool has_second_ = false;
};

}  // namespace millrace::bench
