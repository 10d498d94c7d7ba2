#include "analyze/value_stats.h"

#include "base/base.h"

namespace millrace::analyze {

void ValueStats::add_all(std::span<const uint64_t> values) {
  sketch_.add_all(values);
  for (const uint64_t value : values) {
    bins_.add(value);
    sum_ += value;
  }
}

void ValueStats::merge(const ValueStats& other) {
  sketch_.merge(other.sketch_);
  bins_.merge(other.bins_);
  sum_ += other.sum_;
}

Distribution ValueStats::distribution() const {
  constexpr double kShares[] = {0.25, 0.5, 0.75, 0.95, 0.99};
  Distribution distribution;
  distribution.count = sketch_.count();
  if (distribution.count == 0) return distribution;
  const std::vector<uint64_t> at = sketch_.quantiles(kShares);
  distribution.sum = sum_;
  distribution.min = sketch_.min();
  distribution.p25 = at[0];
  distribution.mean = static_cast<double>(sum_) / static_cast<double>(distribution.count);
  distribution.median = at[1];
  distribution.p75 = at[2];
  distribution.p95 = at[3];
  distribution.p99 = at[4];
  distribution.max = sketch_.max();
  return distribution;
}

void ValueStats::save(std::vector<std::byte>& out) const {
  const auto put = [&out](const auto& value) {
    const ByteView bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  put(sum_);
  put(bins_);
  sketch_.save(out);
}

Result<ValueStats> ValueStats::load(ByteReader& in) {
  ValueStats stats;
  ASSIGN_OR_RETURN(stats.sum_, in.read<uint64_t>());
  ASSIGN_OR_RETURN(stats.bins_, in.read<LogHistogram>());
  ASSIGN_OR_RETURN(stats.sketch_, QuantileSketch::load(in));
  if (stats.bins_.total() != stats.sketch_.count()) {
    return fail(Errc::kCorrupt, "a histogram has {} values, but its quantiles have {}",
                stats.bins_.total(), stats.sketch_.count());
  }
  return stats;
}

}  // namespace millrace::analyze
