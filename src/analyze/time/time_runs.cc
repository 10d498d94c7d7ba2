#include "analyze/time/time_runs.h"

#include <algorithm>
#include <iterator>

#include "base/numbers/radix_sort.h"

namespace millrace::analyze {
namespace {

// Writes the union to the end of `spans` and returns the index where it begins. Goes from the last
// span to the first, because in the order of ends a span comes after those within it.
size_t unite(std::vector<Interval>& spans) {
  const auto ends_earlier = [](const Interval& a, const Interval& b) {
    return a.end_ns < b.end_ns;
  };
  if (!std::is_sorted(spans.begin(), spans.end(), ends_earlier)) {
    radix_sort(std::span(spans), [](const Interval& span) { return span.end_ns; });
  }
  size_t place = spans.size();
  Interval open;
  for (size_t i = spans.size(); i-- > 0;) {
    const Interval span = spans[i];
    if (span.begin_ns >= span.end_ns) continue;
    if (open.begin_ns < open.end_ns) {
      if (span.end_ns >= open.begin_ns) {
        open.begin_ns = std::min(open.begin_ns, span.begin_ns);
        continue;
      }
      spans[--place] = open;
    }
    open = span;
  }
  if (open.begin_ns < open.end_ns) spans[--place] = open;
  return place;
}

}  // namespace

void TimeRuns::add(uint32_t tag, std::vector<Interval>& spans) {
  for (size_t at = unite(spans); at < spans.size(); at += kRunSpans) {
    const size_t end = std::min(spans.size(), at + kRunSpans);
    TaggedRun& tagged = runs_.emplace_back();
    tagged.tag = tag;
    tagged.run.reserve(end - at);
    for (size_t i = at; i < end; ++i) tagged.run.append(spans[i]);
    tagged.run.finish();
  }
}

void TimeRuns::append(TimeRuns&& other) {
  runs_.insert(runs_.end(), std::make_move_iterator(other.runs_.begin()),
               std::make_move_iterator(other.runs_.end()));
  other.runs_.clear();
}

uint64_t TimeRuns::span_count() const {
  uint64_t count = 0;
  for (const TaggedRun& tagged : runs_) count += tagged.run.count();
  return count;
}

uint64_t TimeRuns::size_bytes() const {
  uint64_t size_bytes = runs_.capacity() * sizeof(TaggedRun);
  for (const TaggedRun& tagged : runs_) size_bytes += tagged.run.size_bytes();
  return size_bytes;
}

void TimeRuns::save(std::vector<std::byte>& out) const {
  append_varint(out, runs_.size());
  for (const TaggedRun& tagged : runs_) {
    append_varint(out, tagged.tag);
    tagged.run.save(out);
  }
}

Status TimeRuns::merge(ByteReader& saved, const std::function<bool(uint64_t tag)>& is_known) {
  ASSIGN_OR_RETURN(const uint64_t run_count, saved.read_varint());
  TimeRuns loaded;
  for (uint64_t i = 0; i < run_count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t tag, saved.read_varint());
    if (!is_known(tag)) {
      return fail(Errc::kCorrupt, "saved times have tag {}, which this trace does not have", tag);
    }
    TaggedRun& tagged = loaded.runs_.emplace_back();
    tagged.tag = static_cast<uint32_t>(tag);
    ASSIGN_OR_RETURN(tagged.run, IntervalRun::load(saved));
  }
  append(std::move(loaded));
  return {};
}

}  // namespace millrace::analyze
