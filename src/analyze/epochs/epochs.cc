#include "analyze/epochs/epochs.h"

#include <algorithm>
#include <utility>

namespace millrace::analyze {
namespace {

template <typename Span>
void sort_by_begin(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns < b.end_ns;
  });
}

std::pair<int64_t, int64_t> key_of(const EpochSpan& span) { return {span.epoch, 0}; }
std::pair<int64_t, int64_t> key_of(const StepSpan& span) { return {span.epoch, span.step}; }

template <typename Span>
void join(Span& span, const Span& other) {
  span.begin_ns = std::min(span.begin_ns, other.begin_ns);
  span.end_ns = std::max(span.end_ns, other.end_ns);
}

// Regions of the same step are usually adjacent.
template <typename Span>
void join_last(std::vector<Span>& spans, const Span& span) {
  if (spans.empty() || key_of(spans.back()) != key_of(span)) {
    spans.push_back(span);
  } else {
    join(spans.back(), span);
  }
}

// Leaves one span per epoch or step, sorted by begin.
template <typename Span>
void join_equal(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return key_of(a) < key_of(b); });
  std::vector<Span> joined;
  for (const Span& span : spans) join_last(joined, span);
  spans = std::move(joined);
  sort_by_begin(spans);
}

template <typename Span>
const Span* find(const std::vector<Span>& spans, uint64_t time_ns) {
  auto after =
      std::upper_bound(spans.begin(), spans.end(), time_ns,
                       [](uint64_t time, const Span& span) { return time < span.begin_ns; });
  if (after == spans.begin()) return nullptr;
  const Span& span = *--after;
  return time_ns < span.end_ns ? &span : nullptr;
}

// Extends each epoch to the begin of the next.
void join_epochs(std::vector<EpochSpan>& epochs) {
  join_equal(epochs);
  for (size_t i = 0; i + 1 < epochs.size(); ++i) epochs[i].end_ns = epochs[i + 1].begin_ns;
}

}  // namespace

void EpochIndex::add(uint32_t group, const StepSpan& region, MarkedBy by) {
  if (region.epoch < 0 && region.step < 0) return;
  if (groups_.size() <= group) groups_.resize(group + 1);
  GroupSpans& of = groups_[group];
  const bool trains = by == MarkedBy::kTraining;
  if (region.epoch >= 0) {
    join_last(trains ? of.epochs : of.reading,
              EpochSpan{region.epoch, region.begin_ns, region.end_ns});
  }
  if (region.step >= 0) join_last(trains ? of.steps : of.steps_of_reading, region);
}

void EpochIndex::finish() {
  for (GroupSpans& of : groups_) {
    if (of.epochs.empty()) of.epochs = of.reading;
    if (of.steps.empty()) of.steps = std::move(of.steps_of_reading);
    of.steps_of_reading = {};
    of.reading.insert(of.reading.end(), of.epochs.begin(), of.epochs.end());
    join_epochs(of.epochs);
    join_epochs(of.reading);
    for (EpochSpan& span : of.reading) {
      const auto came = std::ranges::find(of.epochs, span.epoch, &EpochSpan::epoch);
      if (came == of.epochs.end()) span.epoch = -1;
    }
    join_equal(of.steps);
    for (size_t i = 0; i + 1 < of.steps.size(); ++i) {
      of.steps[i].end_ns = std::min(of.steps[i].end_ns, of.steps[i + 1].begin_ns);
    }
  }
}

std::span<const EpochSpan> EpochIndex::epochs(uint32_t group) const {
  if (group >= groups_.size()) return {};
  return groups_[group].epochs;
}

std::span<const EpochSpan> EpochIndex::reading(uint32_t group) const {
  if (group >= groups_.size()) return {};
  return groups_[group].reading;
}

std::span<const StepSpan> EpochIndex::steps(uint32_t group) const {
  if (group >= groups_.size()) return {};
  return groups_[group].steps;
}

int64_t EpochIndex::epoch_at(uint32_t group, uint64_t time_ns) const {
  if (group >= groups_.size()) return -1;
  const EpochSpan* span = find(groups_[group].epochs, time_ns);
  return span == nullptr ? -1 : span->epoch;
}

int64_t EpochIndex::reading_at(uint32_t group, uint64_t time_ns) const {
  if (group >= groups_.size()) return -1;
  const EpochSpan* span = find(groups_[group].reading, time_ns);
  return span == nullptr ? -1 : span->epoch;
}

int64_t EpochCursor::search(uint64_t time_ns) {
  const auto after =
      std::upper_bound(spans_.begin(), spans_.end(), time_ns,
                       [](uint64_t time, const EpochSpan& span) { return time < span.begin_ns; });
  const uint64_t next_ns = after == spans_.end() ? ~uint64_t{0} : after->begin_ns;
  if (after == spans_.begin()) {
    known_ = {-1, 0, next_ns};
  } else if (const EpochSpan& span = *(after - 1); time_ns < span.end_ns) {
    known_ = span;
  } else {
    known_ = {-1, span.end_ns, next_ns};
  }
  return known_.epoch;
}

const StepSpan* EpochIndex::step_at(uint32_t group, uint64_t time_ns) const {
  if (group >= groups_.size()) return nullptr;
  return find(groups_[group].steps, time_ns);
}

}  // namespace millrace::analyze
