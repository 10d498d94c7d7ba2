// ValueStats: collects values and computes their Distribution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyze/profile.h"
#include "base/bytes.h"
#include "base/log_histogram.h"
#include "base/quantile_sketch.h"
#include "base/result.h"

namespace millrace::analyze {

class ValueStats {
 public:
  void add_all(std::span<const uint64_t> values);
  void merge(const ValueStats& other);

  uint64_t sum() const { return sum_; }
  const LogHistogram& bins() const { return bins_; }
  Distribution distribution() const;

  void save(std::vector<std::byte>& out) const;
  static Result<ValueStats> load(ByteReader& in);

 private:
  QuantileSketch sketch_;
  LogHistogram bins_;
  uint64_t sum_ = 0;
};

}  // namespace millrace::analyze
