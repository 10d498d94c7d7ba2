// OrderedSpans: the spans of many runs sorted by begin, slice by slice.
//
// Time is divided into slices that threads process independently. Within a slice, spans are
// returned in batches small enough to be sorted in the L2 cache. Each slice reads its runs once and
// skips what lies before the slice. Rejected: a heap of cursors. With the hundreds of runs that a
// job with several ranks has at any time, a radix sort of a batch costs half as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers/interval_set.h"

namespace millrace::analyze {

struct RunView {
  const IntervalRun* run = nullptr;
  uint32_t tag = 0;
};

struct TimeSlice {
  Interval time;
  std::vector<RunView> runs;         // that have spans in it, sorted by begin
  std::vector<uint64_t> batch_ends;  // the last is time.end_ns
};

// `whole` is the interval that the slices cover; spans outside are left out. REQUIRES: no run is
// empty.
std::vector<TimeSlice> make_slices(std::vector<RunView> runs, const Interval& whole,
                                   size_t slice_count);

// A span cut to its slice. Only 16 bytes, because sorting moves it: ends of spans of 2 s and longer
// are stored in a separate list.
struct OrderedSpan {
  static constexpr uint32_t kIsLong = 0x80000000;

  uint64_t begin_ns;
  uint32_t length;  // or kIsLong and the index of its end in a list
  uint32_t tag;
};

// Used by one thread.
class OrderedSpans {
 public:
  // `slice` must live until the next call of begin().
  void begin(const TimeSlice& slice);

  // Advances to the next batch, which is sorted. False at the end of the slice.
  bool next_batch();

  std::span<const OrderedSpan> batch() const { return batch_; }

  uint64_t end_of(const OrderedSpan& span) const {
    if ((span.length & OrderedSpan::kIsLong) == 0) [[likely]]
      return span.begin_ns + span.length;
    return long_ends_[span.length & ~OrderedSpan::kIsLong];
  }

 private:
  struct Open {
    RunCursor cursor;
    Interval next;
    uint32_t tag = 0;
  };

  void open_runs(uint64_t until_ns);
  void push(const Interval& span, uint32_t tag);

  const TimeSlice* slice_ = nullptr;
  size_t batch_count_ = 0;   // batches returned so far
  size_t opened_count_ = 0;  // runs opened so far
  std::vector<Open> open_;
  std::vector<OrderedSpan> batch_;
  std::vector<uint64_t> long_ends_;
};

}  // namespace millrace::analyze
