#include "analyze/time/ordered_spans.h"

#include <algorithm>

#include "base/numbers/radix_sort.h"

namespace millrace::analyze {
namespace {

constexpr uint64_t kBatchSpans = 1 << 14;

// Divides time into batches with about the same number of spans. Returns their ends; the last is
// the end of `whole`.
std::vector<uint64_t> batch_ends(const std::vector<RunView>& runs, const Interval& whole) {
  std::vector<uint64_t> ends;
  uint64_t begin_ns = whole.begin_ns;
  uint64_t spans = 0;
  for (const RunView& view : runs) {
    const uint64_t next_ns = view.run->begin_ns();
    if (next_ns >= whole.end_ns) break;
    if (spans >= kBatchSpans && next_ns > begin_ns) {
      ends.push_back(next_ns);
      begin_ns = next_ns;
      spans = 0;
    }
    spans += view.run->count();
  }
  ends.push_back(whole.end_ns);
  return ends;
}

}  // namespace

std::vector<TimeSlice> make_slices(std::vector<RunView> runs, const Interval& whole,
                                   size_t slice_count) {
  std::sort(runs.begin(), runs.end(), [](const RunView& a, const RunView& b) {
    return a.run->begin_ns() < b.run->begin_ns();
  });
  const std::vector<uint64_t> ends = batch_ends(runs, whole);
  const size_t batches_each = (ends.size() + slice_count - 1) / slice_count;
  std::vector<TimeSlice> slices;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i % batches_each == 0) {
      slices.push_back({{i == 0 ? whole.begin_ns : ends[i - 1], 0}, {}, {}});
    }
    slices.back().time.end_ns = ends[i];
    slices.back().batch_ends.push_back(ends[i]);
  }
  size_t first = 0;  // the slice in which the current run begins
  for (const RunView& view : runs) {
    while (first + 1 < slices.size() && slices[first].time.end_ns <= view.run->begin_ns()) ++first;
    for (size_t i = first; i < slices.size() && slices[i].time.begin_ns < view.run->end_ns(); ++i) {
      slices[i].runs.push_back(view);
    }
  }
  return slices;
}

void OrderedSpans::begin(const TimeSlice& slice) {
  slice_ = &slice;
  batch_count_ = 0;
  opened_count_ = 0;
  open_.clear();
}

void OrderedSpans::open_runs(uint64_t until_ns) {
  for (; opened_count_ < slice_->runs.size(); ++opened_count_) {
    const RunView& view = slice_->runs[opened_count_];
    if (view.run->begin_ns() >= until_ns) return;
    Open open{.cursor = RunCursor(*view.run), .next = {}, .tag = view.tag};
    bool has_more = open.cursor.next(open.next);
    while (has_more && open.next.end_ns <= slice_->time.begin_ns) {
      has_more = open.cursor.next(open.next);
    }
    if (has_more) open_.push_back(open);
  }
}

void OrderedSpans::push(const Interval& span, uint32_t tag) {
  const uint64_t begin_ns = std::max(span.begin_ns, slice_->time.begin_ns);
  const uint64_t end_ns = std::min(span.end_ns, slice_->time.end_ns);
  if (end_ns - begin_ns < OrderedSpan::kIsLong) [[likely]] {
    batch_.push_back({begin_ns, static_cast<uint32_t>(end_ns - begin_ns), tag});
    return;
  }
  const auto place = static_cast<uint32_t>(long_ends_.size());
  batch_.push_back({begin_ns, OrderedSpan::kIsLong | place, tag});
  long_ends_.push_back(end_ns);
}

bool OrderedSpans::next_batch() {
  if (batch_count_ == slice_->batch_ends.size()) return false;
  const uint64_t begin_ns =
      batch_count_ == 0 ? slice_->time.begin_ns : slice_->batch_ends[batch_count_ - 1];
  const uint64_t end_ns = slice_->batch_ends[batch_count_++];
  batch_.clear();
  long_ends_.clear();
  open_runs(end_ns);
  size_t kept = 0;  // kept in order, so that spans of a single process stay sorted
  for (size_t i = 0; i < open_.size(); ++i) {
    Open open = open_[i];
    bool has_more = true;
    for (; has_more && open.next.begin_ns < end_ns; has_more = open.cursor.next(open.next)) {
      push(open.next, open.tag);
    }
    if (has_more) open_[kept++] = open;
  }
  open_.resize(kept);
  const auto earlier = [](const OrderedSpan& a, const OrderedSpan& b) {
    return a.begin_ns < b.begin_ns;
  };
  if (!std::is_sorted(batch_.begin(), batch_.end(), earlier)) {
    // Relative to the begin of the batch, so that few bits differ.
    radix_sort(std::span(batch_),
               [begin_ns](const OrderedSpan& span) { return span.begin_ns - begin_ns; });
  }
  return true;
}

}  // namespace millrace::analyze
