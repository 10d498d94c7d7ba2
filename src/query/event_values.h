// EventValues: the values of the columns of the table `events` for one event of a block.
//
// Texts are not copied and live as long as the trace. Exceptions: tags live until the next call,
// and the names of calls that this version does not know live as long as this object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "query/event_columns.h"
#include "query/queried_trace.h"
#include "trace/read/columns.h"

namespace millrace::query {

// One event.
struct EventRow {
  const trace::EventColumns& columns;
  size_t row = 0;

  wire::Call call() const { return columns.call[row]; }
  bool is_region() const { return wire::level_of(call()) == wire::Level::kApp; }
};

class EventValues {
 public:
  explicit EventValues(QueriedTrace& source);

  // Nothing: NULL. REQUIRES: the column is in kTextColumns.
  std::optional<std::string_view> text(EventColumn column, const EventRow& event);

  // Nothing: NULL. REQUIRES: the column is not in kTextColumns.
  std::optional<int64_t> integer(EventColumn column, const EventRow& event);

  // Equal for two events if and only if their values are. REQUIRES: the column is in kGroupColumns.
  uint64_t group_key(EventColumn column, const EventRow& event);

  std::string_view name_of(wire::Call call);

 private:
  std::optional<int64_t> epoch(const EventRow& event);
  std::optional<int64_t> step(const EventRow& event);
  std::optional<std::string_view> tags(const EventRow& event);
  uint64_t name_key(const EventRow& event);
  uint32_t group_of(const EventRow& event);

  QueriedTrace& source_;
  std::vector<std::string_view> call_names_;        // by number
  std::map<std::string_view, uint64_t> call_keys_;  // a region may have the name of a call
  std::vector<uint64_t> region_keys_;               // by name; 0: not looked up
  std::map<wire::Call, std::string> unknown_calls_;
  std::string made_;
};

// "read", "metadata", ...
std::string_view kind_name(wire::CallKind kind);

// Nothing for a call that this version does not know.
std::optional<std::string_view> layer_name(const analyze::Context& context, const EventRow& event);

}  // namespace millrace::query
