// TimeBins: equal bins over an interval of time, and how to distribute a call over the bins that it
// crosses.
//
// Times are relative to the begin of the first bin. A time at or after the end belongs to the last
// bin, so an event at the very end is not lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace::analyze {

class TimeBins {
 public:
  // At most `count_max` bins of whole nanoseconds that cover `length_ns`. At least one bin.
  TimeBins(uint64_t length_ns, size_t count_max)
      : length_ns_(std::max<uint64_t>(length_ns, 1)),
        bin_ns_((length_ns_ - 1) / std::max<size_t>(count_max, 1) + 1),
        count_(static_cast<size_t>((length_ns_ - 1) / bin_ns_ + 1)) {}

  uint64_t bin_ns() const { return bin_ns_; }
  size_t count() const { return count_; }

  size_t at(uint64_t moment_ns) const {
    return std::min(static_cast<size_t>(moment_ns / bin_ns_), count_ - 1);
  }

  uint64_t begin_of(size_t bin) const { return bin * bin_ns_; }

  // The part of the bin within the interval: the last bin may be shorter.
  uint64_t width_of(size_t bin) const { return std::min(bin_ns_, length_ns_ - begin_of(bin)); }

 private:
  uint64_t length_ns_;
  uint64_t bin_ns_;
  size_t count_;
};

// Caches the bin of the last time. Neighboring events in a block are close in time, and a division
// costs as much as everything else that is done for an event.
class BinCursor {
 public:
  explicit BinCursor(const TimeBins& bins) : bins_(bins) {}

  size_t at(uint64_t moment_ns) {
    if (moment_ns - begin_ns_ < bins_.bin_ns()) return bin_;
    bin_ = bins_.at(moment_ns);
    begin_ns_ = bins_.begin_of(bin_);
    return bin_;
  }

  // The end of the bin that at() returned last.
  uint64_t end_ns() const { return begin_ns_ + bins_.bin_ns(); }

 private:
  const TimeBins& bins_;
  size_t bin_ = 0;
  uint64_t begin_ns_ = 0;
};

// How much of `amount`, spread evenly over a call, falls into its first bin, each bin between and
// its last bin. All are integers and add up to the amount.
struct Shares {
  uint64_t first = 0;
  uint64_t between = 0;  // for each of them
  uint64_t last = 0;
};

// A call from `begin_ns` to `end_ns` that crosses the bins `first` < `last`.
struct Crossing {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  size_t first = 0;
  size_t last = 0;
};

inline Shares share_out(const TimeBins& bins, const Crossing& crossing, uint64_t amount) {
  __extension__ using Uint128 = unsigned __int128;
  const uint64_t duration_ns = crossing.end_ns - crossing.begin_ns;
  const auto of = [&](uint64_t part_ns) {
    return static_cast<uint64_t>(Uint128{amount} * part_ns / duration_ns);
  };
  Shares shares;
  shares.first = of(bins.begin_of(crossing.first + 1) - crossing.begin_ns);
  shares.between = crossing.last - crossing.first > 1 ? of(bins.bin_ns()) : 0;
  shares.last = amount - shares.first - shares.between * (crossing.last - crossing.first - 1);
  return shares;
}

}  // namespace millrace::analyze
