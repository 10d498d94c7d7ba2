// TimeRuns: very many spans of time, each with a tag, in some five bytes a span.
//
// Spans come a list at a time and are united within the list, not across lists: that is the
// reader's work (time_sweep.h). They are kept in runs of at most kRunSpans, so that a reader may
// take a slice of time without reading the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/interval_set.h"
#include "base/result.h"

namespace millrace::analyze {

struct TaggedRun {
  uint32_t tag = 0;
  IntervalRun run;
};

class TimeRuns {
 public:
  static constexpr size_t kRunSpans = 512;

  // The union of `spans`, which is left in disorder. Quickest if they stand in the order of their
  // ends, as events of one thread do. Those without length count as nothing.
  void add(uint32_t tag, std::vector<Interval>& spans);

  // Takes what another one has.
  void append(TimeRuns&& other);

  const std::vector<TaggedRun>& runs() const { return runs_; }
  uint64_t span_count() const;
  uint64_t size_bytes() const;

  void save(std::vector<std::byte>& out) const;

  // Adds saved ones, if all their tags are some that `is_known` knows. An error leaves all as it
  // was.
  Status merge(ByteReader& saved, const std::function<bool(uint64_t tag)>& is_known);

 private:
  std::vector<TaggedRun> runs_;
};

}  // namespace millrace::analyze
