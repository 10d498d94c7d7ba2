// BusyBins: how much of each bin of time was busy, as a union of intervals.
//
// The union of one thread needs no sorting. Its events are stored in a block in the order in which
// they ended. Read from the back, each one ends before or within what was united so far.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyze/context.h"
#include "analyze/time/time_bins.h"

namespace millrace::analyze {

// Relative to the begin of the job.
struct Span {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// The part of an event within the job. A foreign trace may contain events outside it.
inline Span span_in_job(const Context& context, uint64_t begin_ns, uint64_t duration_ns) {
  const uint64_t length_ns = context.end_ns - context.begin_ns;
  const uint64_t from_ns =
      begin_ns < context.begin_ns ? 0 : std::min(begin_ns - context.begin_ns, length_ns);
  return {from_ns, from_ns + std::min(duration_ns, length_ns - from_ns)};
}

// The interval that can still grow as earlier ones are added.
class BackwardUnion {
 public:
  // Calls `emit(Span)` for an interval that cannot grow any more.
  template <typename Emit>
  void add(const Span& span, const Emit& emit) {
    // The second condition fails only for events of a foreign trace that are out of order.
    if (span.end_ns >= open_.begin_ns && span.end_ns <= open_.end_ns) {
      open_.begin_ns = std::min(open_.begin_ns, span.begin_ns);
      return;
    }
    finish(emit);
    open_ = span;
  }

  template <typename Emit>
  void finish(const Emit& emit) {
    if (open_.begin_ns < open_.end_ns) emit(open_);
    open_ = {};
  }

 private:
  Span open_;
};

// A bin. `step` applies to this bin and all that follow, so an interval across many bins costs no
// more than one across three. It goes up and down and wraps around; its running sum does not.
struct BusyBin {
  uint64_t busy_ns = 0;
  uint64_t step = 0;  // change in the number of intervals that fill whole bins from here on
};

// REQUIRES: the span is not empty and lies within the bins; `cursor` belongs to `bins`.
inline void add_busy(const TimeBins& bins, BinCursor& cursor, const Span& span,
                     std::span<BusyBin> busy) {
  const size_t first = cursor.at(span.begin_ns);
  if (span.end_ns <= cursor.end_ns()) [[likely]] {
    busy[first].busy_ns += span.end_ns - span.begin_ns;
    return;
  }
  const size_t last = bins.at(span.end_ns - 1);
  busy[first].busy_ns += cursor.end_ns() - span.begin_ns;
  busy[first + 1].step += 1;
  busy[last].step -= 1;
  busy[last].busy_ns += span.end_ns - bins.begin_of(last);
}

// The busy share of each bin in thousandths, at most 1000. Combines `join` neighboring bins into
// one.
inline std::vector<uint16_t> thousandths(const TimeBins& bins, std::span<const BusyBin> busy,
                                         size_t join = 1) {
  std::vector<uint16_t> list;
  uint64_t step = 0;
  for (size_t first = 0; first < busy.size(); first += join) {
    uint64_t width_ns = 0;
    uint64_t busy_ns = 0;
    for (size_t i = first; i < std::min(first + join, busy.size()); ++i) {
      step += busy[i].step;
      const uint64_t width_here_ns = bins.width_of(i);
      width_ns += width_here_ns;
      busy_ns += step != 0 ? width_here_ns : std::min(busy[i].busy_ns, width_here_ns);
    }
    list.push_back(static_cast<uint16_t>((busy_ns * 1000 + width_ns / 2) / width_ns));
  }
  return list;
}

}  // namespace millrace::analyze
