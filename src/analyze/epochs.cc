#include "analyze/epochs.h"

#include <algorithm>

namespace millrace::analyze {
namespace {

template <typename Span>
void sort_by_begin(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns < b.end_ns;
  });
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

}  // namespace

void EpochIndex::add(uint32_t group, int64_t epoch, int64_t step, Interval time) {
  if (epoch < 0 && step < 0) return;
  if (groups_.size() <= group) groups_.resize(group + 1);
  OfGroup& of = groups_[group];
  if (epoch >= 0) {
    const auto [found, is_new] = of.epoch_places.try_emplace(epoch, of.epochs.size());
    if (is_new) of.epochs.push_back({epoch, time.begin_ns, time.end_ns});
    EpochSpan& span = of.epochs[found->second];
    span.begin_ns = std::min(span.begin_ns, time.begin_ns);
    span.end_ns = std::max(span.end_ns, time.end_ns);
  }
  if (step >= 0) {
    const auto [found, is_new] = of.step_places.try_emplace({epoch, step}, of.steps.size());
    if (is_new) of.steps.push_back({epoch, step, time.begin_ns, time.end_ns});
    StepSpan& span = of.steps[found->second];
    span.begin_ns = std::min(span.begin_ns, time.begin_ns);
    span.end_ns = std::max(span.end_ns, time.end_ns);
  }
}

void EpochIndex::finish() {
  for (OfGroup& of : groups_) {
    of.epoch_places.clear();
    of.step_places.clear();
    sort_by_begin(of.epochs);
    for (size_t i = 0; i + 1 < of.epochs.size(); ++i)
      of.epochs[i].end_ns = of.epochs[i + 1].begin_ns;
    sort_by_begin(of.steps);
    for (size_t i = 0; i + 1 < of.steps.size(); ++i) {
      of.steps[i].end_ns = std::min(of.steps[i].end_ns, of.steps[i + 1].begin_ns);
    }
  }
}

std::span<const EpochSpan> EpochIndex::epochs(uint32_t group) const {
  if (group >= groups_.size()) return {};
  return groups_[group].epochs;
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
