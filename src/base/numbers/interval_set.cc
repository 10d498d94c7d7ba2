#include "base/numbers/interval_set.h"

#include <bit>

#include "base/numbers/radix_sort.h"

namespace millrace {
namespace {

constexpr size_t kPaddingBytes = 8;  // the last number is read as a whole word

unsigned size_of(uint64_t value) { return (static_cast<unsigned>(std::bit_width(value)) + 7) / 8; }

}  // namespace

IntervalRun IntervalRun::of(std::span<Interval> intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier)) {
    radix_sort(intervals, [](const Interval& interval) { return interval.begin_ns; });
  }
  IntervalRun run;
  for (const Interval& interval : intervals) {
    if (interval.begin_ns < interval.end_ns) run.append(interval);
  }
  run.finish();
  return run;
}

void IntervalRun::reserve(size_t count) {
  bytes_.reserve(bytes_.size() + count * (1 + 2 * sizeof(uint64_t)) + kPaddingBytes);
}

void IntervalRun::append(Interval interval) {
  if (last_.begin_ns < last_.end_ns) {
    if (interval.begin_ns <= last_.end_ns) {
      last_.end_ns = std::max(last_.end_ns, interval.end_ns);
      return;
    }
    write(last_);
  } else {
    begin_ns_ = end_ns_ = interval.begin_ns;
  }
  last_ = interval;
}

void IntervalRun::write(Interval interval) {
  const uint64_t gap_ns = interval.begin_ns - end_ns_;
  const uint64_t length_ns = interval.end_ns - interval.begin_ns;
  const unsigned gap_bytes = size_of(gap_ns);
  const unsigned length_bytes = size_of(length_ns);
  const size_t used = bytes_.size();
  // Write both numbers as whole words; the second overwrites the unused bytes of the first.
  bytes_.resize(used + 1 + 2 * sizeof(uint64_t));
  std::byte* const at = bytes_.data() + used;
  *at = static_cast<std::byte>(gap_bytes | length_bytes << 4);
  std::memcpy(at + 1, &gap_ns, sizeof(gap_ns));
  std::memcpy(at + 1 + gap_bytes, &length_ns, sizeof(length_ns));
  bytes_.resize(used + 1 + gap_bytes + length_bytes);
  ++count_;
  length_ns_ += length_ns;
  end_ns_ = interval.end_ns;
}

void IntervalRun::finish() {
  if (last_.begin_ns == last_.end_ns) return;
  write(last_);
  last_ = {};
  bytes_.resize(bytes_.size() + kPaddingBytes);
  bytes_.shrink_to_fit();
}

// Format, with numbers as LEB128: the count and, unless it is 0, the begin, the size of what
// follows, and the intervals as in memory.
void IntervalRun::save(std::vector<std::byte>& out) const {
  append_varint(out, count_);
  if (count_ == 0) return;
  append_varint(out, begin_ns_);
  append_varint(out, bytes_.size() - kPaddingBytes);
  out.insert(out.end(), bytes_.begin(), bytes_.end() - kPaddingBytes);
}

Result<IntervalRun> IntervalRun::load(ByteReader& in) {
  IntervalRun run;
  ASSIGN_OR_RETURN(run.count_, in.read_varint());
  if (run.count_ == 0) return run;
  ASSIGN_OR_RETURN(run.begin_ns_, in.read_varint());
  ASSIGN_OR_RETURN(const uint64_t size_bytes, in.read_varint());
  ASSIGN_OR_RETURN(const ByteView view, in.take(size_bytes));
  run.end_ns_ = run.begin_ns_;
  ByteReader numbers(view);
  const auto read_number = [&](unsigned number_bytes) -> Result<uint64_t> {
    ASSIGN_OR_RETURN(const ByteView bytes, numbers.take(number_bytes));
    uint64_t value = 0;
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  };
  for (uint64_t i = 0; i < run.count_; ++i) {
    ASSIGN_OR_RETURN(const uint8_t sizes, numbers.read<uint8_t>());
    if ((sizes & 15) > 8 || sizes >> 4 > 8) {
      return fail(Errc::kCorrupt, "interval {} of {} claims a number of more than 8 bytes", i,
                  run.count_);
    }
    ASSIGN_OR_RETURN(const uint64_t gap_ns, read_number(sizes & 15));
    ASSIGN_OR_RETURN(const uint64_t length_ns, read_number(sizes >> 4));
    const bool is_apart = i == 0 ? gap_ns == 0 : gap_ns > 0;
    if (!is_apart || length_ns == 0 || gap_ns > UINT64_MAX - run.end_ns_ ||
        length_ns > UINT64_MAX - run.end_ns_ - gap_ns) {
      return fail(Errc::kCorrupt, "interval {} of {} is not after the previous one", i, run.count_);
    }
    run.end_ns_ += gap_ns + length_ns;
    run.length_ns_ += length_ns;
  }
  if (!numbers.at_end()) {
    return fail(Errc::kCorrupt, "{} bytes are left over after {} intervals", numbers.remaining(),
                run.count_);
  }
  run.bytes_.reserve(view.size() + kPaddingBytes);
  run.bytes_.assign(view.begin(), view.end());
  run.bytes_.resize(view.size() + kPaddingBytes);
  return run;
}

IntervalUnion::IntervalUnion(std::span<const IntervalRun* const> runs) {
  for (const IntervalRun* run : runs) {
    if (!run->empty()) runs_.push_back(run);
  }
  sort_runs();
}

IntervalUnion::IntervalUnion(std::span<const IntervalRun> runs) {
  for (const IntervalRun& run : runs) {
    if (!run.empty()) runs_.push_back(&run);
  }
  sort_runs();
}

void IntervalUnion::sort_runs() {
  std::sort(runs_.begin(), runs_.end(), [](const IntervalRun* a, const IntervalRun* b) {
    return a->begin_ns() < b->begin_ns();
  });
  if (!runs_.empty()) unopened_begin_ns_ = runs_.front()->begin_ns();
}

void IntervalUnion::open_next() {
  Active opened = {.now = {}, .cursor = RunCursor(*runs_[unopened_++])};
  opened.cursor.next(opened.now);
  active_.push_back(opened);
  std::push_heap(active_.begin(), active_.end(),
                 [](const Active& a, const Active& b) { return a.now.begin_ns > b.now.begin_ns; });
  unopened_begin_ns_ = unopened_ < runs_.size() ? runs_[unopened_]->begin_ns() : UINT64_MAX;
}

// Restores the heap after its first element has advanced. Not pop_heap and push_heap, which walk
// the whole height twice: mostly the element stays near the front.
void IntervalUnion::sift_down() {
  const Active moved = active_.front();
  const size_t count = active_.size();
  size_t hole = 0;
  for (;;) {
    size_t child = 2 * hole + 1;
    if (child >= count) break;
    if (child + 1 < count && active_[child + 1].now.begin_ns < active_[child].now.begin_ns) ++child;
    if (active_[child].now.begin_ns >= moved.now.begin_ns) break;
    active_[hole] = active_[child];
    hole = child;
  }
  active_[hole] = moved;
}

// Advances the first element of the heap to its first interval that ends after `until_ns`.
void IntervalUnion::skip_covered(uint64_t until_ns) {
  Active& first = active_.front();
  bool has_more = first.cursor.next(first.now);
  while (has_more && first.now.end_ns <= until_ns) has_more = first.cursor.next(first.now);
  if (!has_more) {
    first = active_.back();
    active_.pop_back();
  }
  if (active_.size() > 1) sift_down();
}

bool IntervalUnion::next_joined(Interval& out) {
  if (active_.empty() && unopened_ == runs_.size()) return false;
  uint64_t begin_ns = unopened_begin_ns_;
  if (!active_.empty()) begin_ns = std::min(begin_ns, active_.front().now.begin_ns);
  out = {begin_ns, begin_ns};
  for (;;) {
    while (unopened_begin_ns_ <= out.end_ns && unopened_ < runs_.size()) open_next();
    if (active_.empty() || active_.front().now.begin_ns > out.end_ns) return true;
    out.end_ns = std::max(out.end_ns, active_.front().now.end_ns);
    skip_covered(out.end_ns);
  }
}

}  // namespace millrace
