// EventScan: the events a query wants, one after the other.
//
// Leaves out blocks by time, process and level before they are read, and rows by name, layer, kind,
// file and time before SQLite sees them. It may leave in what does not fit: SQLite looks again.
//
// Rows may be asked for in groups (GROUP BY, DISTINCT). Then the columns in use of all rows are
// gathered in memory, and given out group by group: SQLite would otherwise sort whole rows by
// comparing texts, which takes several times as long and no less memory. The groups themselves are
// sorted: SQLite does not tell a GROUP BY alone from one with an ORDER BY of the same columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "query/event_columns.h"
#include "query/event_values.h"
#include "query/group_ids.h"
#include "query/queried_trace.h"
#include "trace/columns.h"

namespace millrace::query {

// The column is one of these.
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
  bool nothing = false;  // what is asked for cannot be
  bool regions_only = false;
  uint64_t begin_min_ns = 0;  // on the trace's clock, both included
  uint64_t begin_max_ns = ~uint64_t{0};
  std::vector<Match> matches;                // all of them hold
  std::vector<GroupBy> grouped_by;           // empty: in the order of the blocks
  EventColumnSet used = ~EventColumnSet{0};  // for grouping: what will be asked for
};

// How much memory gathering takes.
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
  int64_t row_number() const;  // the same for the same event, unless it is grouped

  // The user stopped it; the rows are not all.
  bool stopped() const { return stopped_; }

 private:
  void prepare();
  void prepare_calls(const Match& match);
  void prepare_processes(const Match& match);
  bool wants_block(size_t index);
  bool wants(size_t row) const;
  void settle();  // to the next row that is wanted, from place_ on
  bool load_block();
  void gather();
  int compare(uint32_t row, uint32_t other);  // of gathered_, by what is grouped by
  std::vector<uint32_t> sorted_groups(const std::vector<uint32_t>& groups, uint32_t count);
  void gather_block(std::vector<uint32_t>& groups, GroupIds& ids);

  QueriedTrace& source_;
  EventValues& values_;
  EventQuery query_;
  uint32_t started_ = 0;
  bool stopped_ = false;

  // What `matches` come to; empty: all are wanted.
  std::vector<bool> process_ok_;
  std::vector<bool> call_ok_;    // by number; regions are told by their names
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
