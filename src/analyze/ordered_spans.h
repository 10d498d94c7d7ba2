// OrderedSpans: the spans of very many runs in the order of their begins, slice by slice.
//
// Time is cut into slices that threads may take independently; within one, spans come in batches
// small enough to be sorted within the second cache. Each run is read once, however many slices it
// crosses but for what it has before the slice. Not a heap of cursors: with the hundreds of runs
// that a job of some ranks has at any moment, a radix sort of a batch costs half as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/interval_set.h"

namespace millrace::analyze {

struct RunView {
  const IntervalRun* run = nullptr;
  uint32_t tag = 0;
};

struct TimeSlice {
  Interval time;
  std::vector<RunView> runs;         // with spans in it, by begin
  std::vector<uint64_t> batch_ends;  // the last is time.end_ns
};

// `whole` is what the slices cover: what lies outside is left out. REQUIRES: no run is empty.
std::vector<TimeSlice> make_slices(std::vector<RunView> runs, const Interval& whole,
                                   size_t slice_count);

// A span cut to its slice. In 16 bytes, because they are moved about: lengths of 2 s and more stand
// aside.
struct OrderedSpan {
  static constexpr uint32_t kIsLong = 0x80000000;

  uint64_t begin_ns;
  uint32_t length;  // or kIsLong and the place of its end in a list
  uint32_t tag;
};

// One thread's.
class OrderedSpans {
 public:
  // `slice` must live until the next call.
  void begin(const TimeSlice& slice);

  // The next batch, in order; false at the end of the slice.
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
  size_t batch_count_ = 0;   // that were given
  size_t opened_count_ = 0;  // runs
  std::vector<Open> open_;
  std::vector<OrderedSpan> batch_;
  std::vector<uint64_t> long_ends_;
};

}  // namespace millrace::analyze
