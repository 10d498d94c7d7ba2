// Sets of time, as half-open intervals [begin, end) in nanoseconds: stored compactly, combined and
// measured.
//
// An IntervalRun stores a set: sorted, disjoint, without touching intervals, about 5 bytes each. A
// cursor walks a set from its beginning. Any type with
//
//   bool next(Interval& out);   // false at the end
//
// that returns intervals in order, disjoint and not touching, is a cursor. RunCursor reads a run,
// IntervalUnion merges many runs, and Intersection, Difference and Clip combine other cursors, so
// that no set is ever held as a list. Lengths are exact: time that a hundred threads spend at once
// counts once.
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

// What is in both a and b.
template <IntervalCursor A, IntervalCursor B>
class Intersection {
 public:
  Intersection(A a, B b) : a_(std::move(a)), b_(std::move(b)) {
    has_both_ = a_.next(in_a_) && b_.next(in_b_);
  }

  bool next(Interval& out) {
    while (has_both_) {
      out = {std::max(in_a_.begin_ns, in_b_.begin_ns), std::min(in_a_.end_ns, in_b_.end_ns)};
      has_both_ = in_a_.end_ns <= in_b_.end_ns ? a_.next(in_a_) : b_.next(in_b_);
      if (out.begin_ns < out.end_ns) return true;
    }
    return false;
  }

 private:
  A a_;
  B b_;
  Interval in_a_;
  Interval in_b_;
  bool has_both_ = false;
};

// What is in a but not in b.
template <IntervalCursor A, IntervalCursor B>
class Difference {
 public:
  Difference(A a, B b) : a_(std::move(a)), b_(std::move(b)) { has_b_ = b_.next(in_b_); }

  bool next(Interval& out) {
    for (;;) {
      if (rest_.begin_ns == rest_.end_ns && !a_.next(rest_)) return false;
      while (has_b_ && in_b_.end_ns <= rest_.begin_ns) has_b_ = b_.next(in_b_);
      if (!has_b_ || in_b_.begin_ns >= rest_.end_ns) {
        out = rest_;
        rest_.begin_ns = rest_.end_ns;
        return true;
      }
      out = {rest_.begin_ns, in_b_.begin_ns};
      rest_.begin_ns = std::min(rest_.end_ns, in_b_.end_ns);
      if (out.begin_ns < out.end_ns) return true;
    }
  }

 private:
  A a_;
  B b_;
  Interval rest_;
  Interval in_b_;
  bool has_b_ = false;
};

// What is in a or b. For cursors of any kind; for runs, use IntervalUnion.
template <IntervalCursor A, IntervalCursor B>
class UnionOfTwo {
 public:
  UnionOfTwo(A a, B b) : a_(std::move(a)), b_(std::move(b)) {
    has_a_ = a_.next(in_a_);
    has_b_ = b_.next(in_b_);
  }

  bool next(Interval& out) {
    if (!has_a_ && !has_b_) return false;
    const bool starts_with_a = has_a_ && (!has_b_ || in_a_.begin_ns <= in_b_.begin_ns);
    out = starts_with_a ? in_a_ : in_b_;
    for (bool grows = true; grows;) {
      grows = false;
      for (; has_a_ && in_a_.begin_ns <= out.end_ns; has_a_ = a_.next(in_a_), grows = true) {
        out.end_ns = std::max(out.end_ns, in_a_.end_ns);
      }
      for (; has_b_ && in_b_.begin_ns <= out.end_ns; has_b_ = b_.next(in_b_), grows = true) {
        out.end_ns = std::max(out.end_ns, in_b_.end_ns);
      }
    }
    return true;
  }

 private:
  A a_;
  B b_;
  Interval in_a_;
  Interval in_b_;
  bool has_a_ = false;
  bool has_b_ = false;
};

// What is in the window.
template <IntervalCursor A>
class Clip {
 public:
  Clip(A a, Interval window) : a_(std::move(a)), window_(window) {}

  bool next(Interval& out) {
    while (a_.next(out)) {
      if (out.begin_ns >= window_.end_ns) return false;
      out.begin_ns = std::max(out.begin_ns, window_.begin_ns);
      out.end_ns = std::min(out.end_ns, window_.end_ns);
      if (out.begin_ns < out.end_ns) return true;
    }
    return false;
  }

 private:
  A a_;
  Interval window_;
};

// The total length of what is left of a set.
template <IntervalCursor Source>
uint64_t measure_ns(Source source) {
  uint64_t total_ns = 0;
  for (Interval interval; source.next(interval);) total_ns += interval.end_ns - interval.begin_ns;
  return total_ns;
}

// Compares two sets in one walk. Time only in a: a_ns - both_ns. Time in either: a_ns + b_ns -
// both_ns.
struct Overlap {
  uint64_t a_ns = 0;
  uint64_t b_ns = 0;
  uint64_t both_ns = 0;

  bool operator==(const Overlap&) const = default;
};

template <IntervalCursor A, IntervalCursor B>
Overlap measure_overlap(A a, B b) {
  Overlap overlap;
  const auto advance = [](auto& cursor, Interval& now, uint64_t& total_ns) {
    if (!cursor.next(now)) return false;
    total_ns += now.end_ns - now.begin_ns;
    return true;
  };
  Interval in_a;
  Interval in_b;
  bool has_a = advance(a, in_a, overlap.a_ns);
  bool has_b = advance(b, in_b, overlap.b_ns);
  while (has_a && has_b) {
    const uint64_t begin_ns = std::max(in_a.begin_ns, in_b.begin_ns);
    const uint64_t end_ns = std::min(in_a.end_ns, in_b.end_ns);
    if (begin_ns < end_ns) overlap.both_ns += end_ns - begin_ns;
    if (in_a.end_ns <= in_b.end_ns) {
      has_a = advance(a, in_a, overlap.a_ns);
    } else {
      has_b = advance(b, in_b, overlap.b_ns);
    }
  }
  while (has_a) has_a = advance(a, in_a, overlap.a_ns);
  while (has_b) has_b = advance(b, in_b, overlap.b_ns);
  return overlap;
}

template <IntervalCursor Source>
IntervalRun IntervalRun::from(Source& source) {
  IntervalRun run;
  for (Interval interval; source.next(interval);) run.append(interval);
  run.finish();
  return run;
}

}  // namespace millrace
