// EventScan: iterates over the events that a query wants.
//
// It skips blocks by time, process and level before they are read, and rows by name, layer, kind,
// file and time before SQLite sees them. It may return rows that do not match, because SQLite
// checks again.
//
// Rows can be returned in groups (GROUP BY, DISTINCT). The used columns of all rows are then
// collected in memory and returned group by group. SQLite would otherwise sort whole rows by
// comparing texts, which takes several times as long and no less memory. The groups themselves are
// sorted, because SQLite does not distinguish a GROUP BY alone from one with an ORDER BY of the
// same columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "query/event_columns.h"
#include "query/event_values.h"
#include "query/group_ids.h"
#include "query/queried_trace.h"
#include "trace/read/columns.h"

namespace millrace::query {

// A condition: the column has one of these values.
struct Match {
  EventColumn column{};
  std::vector<std::string> texts;
  std::vector<int64_t> integers;
};

struct GroupBy {
  EventColumn column{};
  bool descending = false;
};

struct EventQuery {
  bool nothing = false;  // the conditions cannot be met
  bool regions_only = false;
  uint64_t begin_min_ns = 0;  // on the clock of the trace, both inclusive
  uint64_t begin_max_ns = ~uint64_t{0};
  std::vector<Match> matches;                // all must hold
  std::vector<GroupBy> grouped_by;           // empty: in block order
  EventColumnSet used = ~EventColumnSet{0};  // for grouping: the columns that will be read
};

// How much memory grouping takes.
uint64_t gathered_bytes_per_event(EventColumnSet used);

class EventScan {
 public:
  EventScan(QueriedTrace& source, EventValues& values) : source_(source), values_(values) {}

  void start(EventQuery query);

  bool at_end() const { return columns_ == nullptr; }
  void next() {
    ++place_;
    settle();
  }

  // REQUIRES: !at_end()
  EventRow event() const { return {*columns_, row_}; }
  int64_t row_number() const;  // stable for an event, unless rows are grouped

  // The user interrupted the scan; rows are missing.
  bool stopped() const { return stopped_; }

 private:
  void prepare();
  void prepare_calls(const Match& match);
  void prepare_processes(const Match& match);
  bool wants_block(size_t index);
  bool wants(size_t row) const;
  void settle();  // advances from place_ to the next wanted row
  bool load_block();
  void gather();
  int compare(uint32_t row, uint32_t other);  // rows of gathered_, by the grouping columns
  std::vector<uint32_t> sorted_groups(const std::vector<uint32_t>& groups, uint32_t count);
  void gather_block(std::vector<uint32_t>& groups, GroupIds& ids);

  QueriedTrace& source_;
  EventValues& values_;
  EventQuery query_;
  uint32_t started_ = 0;
  bool stopped_ = false;

  // What `matches` select. Empty: everything.
  std::vector<bool> process_ok_;
  std::vector<bool> call_ok_;    // by number; regions are selected by name
  std::vector<bool> region_ok_;  // by name
  std::vector<bool> file_ok_;    // by name
  uint32_t levels_ = ~uint32_t{0};
  bool checks_rows_ = false;

  size_t block_ = 0;  // the next one to look at
  trace::EventColumns own_;
  std::shared_ptr<const trace::EventColumns> kept_;
  const trace::EventColumns* columns_ = nullptr;  // null: at the end
  size_t place_ = 0;                              // in the block, or in order_
  size_t row_ = 0;
  bool grouped_ = false;
  trace::EventColumns gathered_;
  std::vector<uint32_t> order_;  // of the rows of gathered_
};

}  // namespace millrace::query
