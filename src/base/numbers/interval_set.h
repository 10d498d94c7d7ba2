// Sets of time, as half-open intervals [begin, end) in nanoseconds: stored compactly, merged and
// measured.
//
// An IntervalRun stores a set: sorted, disjoint, without touching intervals, about 5 bytes each. A
// cursor walks a set from its beginning. Any type with
//
//   bool next(Interval& out);   // false at the end
//
// that returns intervals in order, disjoint and not touching, is a cursor. RunCursor reads a run,
// and IntervalUnion merges many, so that no set is ever held as a list. Lengths are exact: time
// that a hundred threads spend at once counts once.
//
// Cursors do not own their runs.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace millrace {

struct Interval {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  // exclusive

  bool operator==(const Interval&) const = default;
};

template <typename T>
concept IntervalCursor = requires(T cursor, Interval& out) {
  { cursor.next(out) } -> std::same_as<bool>;
};

// A stored set. An empty one allocates no memory.
class IntervalRun {
 public:
  IntervalRun() = default;

  // The union of intervals in any order. Reorders them; ignores empty and reversed ones.
  static IntervalRun of(std::span<Interval> intervals);

  // Stores what is left of a cursor.
  template <IntervalCursor Source>
  static IntervalRun from(Source& source);

  // Reserves room for `count` intervals; finish() releases what is not needed. Growing gradually
  // would fragment the heap: a quarter more memory if there are very many runs.
  void reserve(size_t count);

  // Adds an interval. REQUIRES: it is not empty and does not begin before the last one began. Call
  // finish() after the last.
  void append(Interval interval);
  void finish();

  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  uint64_t begin_ns() const { return begin_ns_; }  // 0 if empty
  uint64_t end_ns() const { return end_ns_; }
  uint64_t length_ns() const { return length_ns_; }  // sum over all intervals
  size_t size_bytes() const { return bytes_.size(); }

  // Appends the run in the format that load() reads.
  void save(std::vector<std::byte>& out) const;
  static Result<IntervalRun> load(ByteReader& in);

 private:
  friend class RunCursor;

  void write(Interval interval);

  // For each interval: a byte with the sizes of two numbers, then the numbers: the gap to the
  // previous interval and the length. Not LEB128, where the size of a number is known only at its
  // end: this way, two loads and two masks read an interval without a branch.
  std::vector<std::byte> bytes_;  // with kPaddingBytes at the end, once finished
  uint64_t count_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t length_ns_ = 0;
  Interval last_;  // not written yet: the next may touch it
};

class RunCursor {
 public:
  RunCursor() = default;
  // REQUIRES: the run is finished and outlives the cursor.
  explicit RunCursor(const IntervalRun& run)
      : at_(run.bytes_.data()), left_(run.count_), end_ns_(run.begin_ns_) {}

  bool next(Interval& out) {
    if (left_ == 0) return false;
    --left_;
    const auto sizes = std::to_integer<unsigned>(*at_);
    const unsigned gap_bytes = sizes & 15;
    const unsigned length_bytes = sizes >> 4;
    out.begin_ns = end_ns_ + number_at(at_ + 1, gap_bytes);
    out.end_ns = out.begin_ns + number_at(at_ + 1 + gap_bytes, length_bytes);
    at_ += 1 + gap_bytes + length_bytes;
    end_ns_ = out.end_ns;
    return true;
  }

 private:
  static uint64_t number_at(const std::byte* at, unsigned size_bytes) {
    uint64_t value;
    std::memcpy(&value, at, sizeof(value));
    return value & kMasks[size_bytes];
  }

  static constexpr uint64_t kMasks[9] = {0,          0xff,         0xffff,         0xffffff,
                                         0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
                                         UINT64_MAX};

  const std::byte* at_ = nullptr;
  uint64_t left_ = 0;
  uint64_t end_ns_ = 0;
};

// The union of many runs, which may overlap in time. A run is opened when the walk reaches its
// beginning, so that of all runs of a long recording, only those of the moment are compared. While
// there is only one, its intervals are passed through.
class IntervalUnion {
 public:
  // REQUIRES: the runs are finished and outlive it.
  explicit IntervalUnion(std::span<const IntervalRun* const> runs);
  explicit IntervalUnion(std::span<const IntervalRun> runs);

  bool next(Interval& out) {
    if (active_.size() == 1 && active_[0].now.end_ns < unopened_begin_ns_) {
      out = active_[0].now;
      if (!active_[0].cursor.next(active_[0].now)) active_.clear();
      return true;
    }
    return next_joined(out);
  }

 private:
  struct Active {
    Interval now;
    RunCursor cursor;
  };

  void sort_runs();
  void open_next();
  void skip_covered(uint64_t until_ns);
  void sift_down();
  bool next_joined(Interval& out);

  std::vector<const IntervalRun*> runs_;  // sorted by begin, without empty ones
  size_t unopened_ = 0;
  uint64_t unopened_begin_ns_ = UINT64_MAX;
  std::vector<Active> active_;  // a heap, earliest begin first
};

// The total length of what is left of a set.
template <IntervalCursor Source>
uint64_t measure_ns(Source source) {
  uint64_t total_ns = 0;
  for (Interval interval; source.next(interval);) total_ns += interval.end_ns - interval.begin_ns;
  return total_ns;
}

template <IntervalCursor Source>
IntervalRun IntervalRun::from(Source& source) {
  IntervalRun run;
  for (Interval interval; source.next(interval);) run.append(interval);
  run.finish();
  return run;
}

}  // namespace millrace
