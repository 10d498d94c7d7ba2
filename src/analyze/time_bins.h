// TimeBins: equal bins over a stretch of time, and what to add to them for a call that lies across
// several.
//
// Moments count from the begin of the first bin. A moment at or after the end belongs to the last
// bin, so that an event at the very end is not lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace::analyze {

class TimeBins {
 public:
  // At most `count_max` bins of whole nanoseconds that cover `length_ns`; at least one.
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

  // What of the bin lies in the stretch: the last one may be cut.
  uint64_t width_of(size_t bin) const { return std::min(bin_ns_, length_ns_ - begin_of(bin)); }

 private:
  uint64_t length_ns_;
  uint64_t bin_ns_;
  size_t count_;
};

// The bin of a moment, remembered: events near each other in a block are near in time, and a
// division costs as much as all the rest that is done for an event.
class BinCursor {
 public:
  explicit BinCursor(const TimeBins& bins) : bins_(bins) {}

  size_t at(uint64_t moment_ns) {
    if (moment_ns - begin_ns_ < bins_.bin_ns()) return bin_;
    bin_ = bins_.at(moment_ns);
    begin_ns_ = bins_.begin_of(bin_);
    return bin_;
  }

  // Of the bin that at() gave last.
  uint64_t end_ns() const { return begin_ns_ + bins_.bin_ns(); }

 private:
  const TimeBins& bins_;
  size_t bin_ = 0;
  uint64_t begin_ns_ = 0;
};

// How much of `amount`, spread evenly over a call, falls on its first bin, on each bin between and
// on its last. The three are whole numbers that add up to the amount.
struct Shares {
  uint64_t first = 0;
  uint64_t between = 0;  // of each
  uint64_t last = 0;
};

// A call from `begin_ns` to `end_ns` across the bins `first` < `last`.
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
