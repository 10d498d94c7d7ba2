// Sets of time, as half-open intervals [begin, end) in nanoseconds: kept small, joined and
// measured.
//
// An IntervalRun is a set written down: sorted, disjoint, without intervals that touch, some 5
// bytes each. A cursor walks a set from its beginning; anything with
//
//   bool next(Interval& out);   // false at the end
//
// that gives intervals in order, disjoint and not touching, is one. RunCursor reads a run,
// IntervalUnion joins many runs, and Intersection, Difference and Clip are made of other cursors,
// so that no set is ever held as a list. Lengths are exact: time that a hundred threads spend at
// once counts once.
//
// Cursors look at their runs and do not own them.
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
  uint64_t end_ns = 0;  // not part of it

  bool operator==(const Interval&) const = default;
};

template <typename T>
concept IntervalCursor = requires(T cursor, Interval& out) {
  { cursor.next(out) } -> std::same_as<bool>;
};

// One set, written down. An empty one takes no memory of its own.
class IntervalRun {
 public:
  IntervalRun() = default;

  // The union of intervals in any order. Reorders them; empty and reversed ones count as nothing.
  static IntervalRun of(std::span<Interval> intervals);

  // What a cursor gives from here to its end.
  template <IntervalCursor Source>
  static IntervalRun from(Source& source);

  // Makes room for so many at once; finish() gives back what is too much. Growing bit by bit leaves
  // holes in the heap: a quarter more memory where there are very many runs.
  void reserve(size_t count);

  // Adds an interval that begins at or after begin of the last one. REQUIRES: that, and that it is
  // not empty; call finish() after the last.
  void append(Interval interval);
  void finish();

  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  uint64_t begin_ns() const { return begin_ns_; }  // 0 of nothing
  uint64_t end_ns() const { return end_ns_; }
  uint64_t length_ns() const { return length_ns_; }  // of all its intervals together
  size_t size_bytes() const { return bytes_.size(); }

  // Appends the run in bytes that load() takes.
  void save(std::vector<std::byte>& out) const;
  static Result<IntervalRun> load(ByteReader& in);

 private:
  friend class RunCursor;

  void write(Interval interval);

  // For each interval a byte with the lengths of two numbers in bytes, then the numbers: how long
  // after the one before it begins, and how long it is. Not LEB128, of which a number's length is
  // known only at its end: with two loads and two masks an interval is read without a branch.
  std::vector<std::byte> bytes_;  // kPaddingBytes more than are used, once finished
  uint64_t count_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t length_ns_ = 0;
  Interval last_;  // not written yet: more may touch it
};

class RunCursor {
 public:
  RunCursor() = default;
  // REQUIRES: the run is finished, and outlives the cursor.
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
// begin, so that of a long recording's runs only those of the moment are compared; while that is
// one, its intervals pass straight through.
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

  std::vector<const IntervalRun*> runs_;  // by begin, without empty ones
  size_t unopened_ = 0;
  uint64_t unopened_begin_ns_ = UINT64_MAX;
  std::vector<Active> active_;  // a heap, the earliest begin first
};

// What lies in both.
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

// What lies in a and not in b.
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

// What lies in either: for cursors that are not of runs, for which IntervalUnion is.
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

// What lies in the window.
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

// How long what is left of a set is.
template <IntervalCursor Source>
uint64_t measure_ns(Source source) {
  uint64_t total_ns = 0;
  for (Interval interval; source.next(interval);) total_ns += interval.end_ns - interval.begin_ns;
  return total_ns;
}

// Two sets against each other, in one walk. Only in a: a_ns - both_ns; in either: a_ns + b_ns -
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
