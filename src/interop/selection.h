// Selection: which events of a trace to export: by time, rank and level.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/event.h"
#include "trace/trace.h"

namespace millrace::interop {

struct RankRange {
  int32_t first = 0;
  int32_t last = 0;  // inclusive
};

inline constexpr uint32_t kAllLevels = (1u << wire::kLevelCount) - 1;

struct Selection {
  // Relative to the start of the trace, which is its earliest event. Events that overlap [from,
  // until) are selected.
  std::optional<uint64_t> from_ns;
  std::optional<uint64_t> until_ns;
  std::vector<RankRange> ranks;  // empty: every process, including those without a rank
  uint32_t levels = kAllLevels;  // bit n: wire::Level n
};

// "0,3-5"
Result<std::vector<RankRange>> parse_ranks(std::string_view text);

// "posix,app". One bit per level.
Result<uint32_t> parse_levels(std::string_view text);

// The earliest begin of all events. 0 if there are none.
uint64_t start_of(const trace::Trace& trace);

// A selection prepared for one trace.
class EventFilter {
 public:
  EventFilter(const trace::Trace& trace, const Selection& selection);

  bool wants_block(const trace::BlockInfo& block) const;
  bool wants(const Event& event) const;

 private:
  bool wants_level(uint32_t level) const;

  uint64_t from_ns_ = 0;  // on the clock of the trace
  uint64_t until_ns_ = 0;
  uint32_t levels_ = kAllLevels;
  std::vector<bool> processes_;  // by index: whether it is selected
  std::vector<bool> threads_;
};

// Keeps only the rows that the filter selects.
void keep_wanted(const EventFilter& filter, trace::EventColumns& columns);

// Calls visit(event) for each selected event, block by block, until one call fails.
template <typename Visit>
Status visit_events(const trace::Trace& trace, const Selection& selection, Visit&& visit) {
  const EventFilter filter(trace, selection);
  trace::EventColumns columns;
  for (size_t block = 0; block < trace.blocks().size(); ++block) {
    if (!filter.wants_block(trace.blocks()[block])) continue;
    RETURN_IF_ERROR(trace.read_block(block, columns));
    for (size_t row = 0; row < columns.size_events(); ++row) {
      const Event event = event_at(columns, row);
      if (filter.wants(event)) RETURN_IF_ERROR(visit(event));
    }
  }
  return {};
}

}  // namespace millrace::interop
