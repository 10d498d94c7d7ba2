// TimeRuns: a compact list of spans of time, each with a tag. A span takes about five bytes.
//
// Spans are added in lists. They are united within a list, but not across lists: the reader does
// that (time_sweep.h). They are stored in runs of at most kRunSpans, so that a reader can take a
// slice of time without reading the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/numbers/interval_set.h"
#include "base/result.h"

namespace millrace::analyze {

struct TaggedRun {
  uint32_t tag = 0;
  IntervalRun run;
};

class TimeRuns {
 public:
  static constexpr size_t kRunSpans = 512;

  // Adds the union of `spans` and reorders them. Fastest if they are sorted by end, as events of
  // one thread are. Empty spans are ignored.
  void add(uint32_t tag, std::vector<Interval>& spans);

  // Moves the runs of another one into this.
  void append(TimeRuns&& other);

  const std::vector<TaggedRun>& runs() const { return runs_; }
  uint64_t span_count() const;
  uint64_t size_bytes() const;

  void save(std::vector<std::byte>& out) const;

  // Adds saved runs if `is_known` accepts all their tags. On error nothing changes.
  Status merge(ByteReader& saved, const std::function<bool(uint64_t tag)>& is_known);

 private:
  std::vector<TaggedRun> runs_;
};

}  // namespace millrace::analyze
