// The tables `events` and `regions`: turns the requests of SQLite into an EventQuery.
//
// best_index sees the query before it runs and writes a plan (idxStr) for filter: the used columns,
// the grouping columns, and one word per value that filter will receive. No condition is marked as
// checked (`omit`): types and collations of SQL have special cases, and checking again only costs
// time for rows that passed.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "query/event_scan.h"
#include "query/schema.h"
#include "query/virtual_tables.h"

namespace millrace::query {
namespace {

// Above this, sorting is left to SQLite, which uses temporary files for what does not fit.
constexpr uint64_t kGatheredBytesMax = uint64_t{1} << 30;

// The data that a module is registered with: one of the two tables.
struct Kind {
  QueriedTrace* source = nullptr;
  const TableSchema* schema = nullptr;
  bool regions_only = false;
};

struct EventsTable : sqlite3_vtab {
  explicit EventsTable(const Kind& of)
      : sqlite3_vtab{},
        source(*of.source),
        regions_only(of.regions_only),
        columns(event_columns_of(*of.schema)) {}

  QueriedTrace& source;
  bool regions_only;
  std::vector<EventColumn> columns;  // by SQLite's column number
};

struct EventsCursor : sqlite3_vtab_cursor {
  explicit EventsCursor(EventsTable& of)
      : sqlite3_vtab_cursor{}, table(of), values(of.source), scan(of.source, values) {}

  EventsTable& table;
  EventValues values;
  EventScan scan;
};

EventsTable& table_of(sqlite3_vtab* table) { return *static_cast<EventsTable*>(table); }
EventsCursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<EventsCursor*>(cursor); }

// ---- before the query runs

// A word of the plan: which column is compared, and how.
struct Word {
  EventColumn column{};
  char how = '=';  // = < > { (at most) } (at least) i (in)
};

char range_sign(unsigned char op) {
  switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
      return '=';
    case SQLITE_INDEX_CONSTRAINT_LT:
      return '<';
    case SQLITE_INDEX_CONSTRAINT_LE:
      return '{';
    case SQLITE_INDEX_CONSTRAINT_GT:
      return '>';
    case SQLITE_INDEX_CONSTRAINT_GE:
      return '}';
    default:
      return '\0';
  }
}

// The share of the trace that remains after the pushed-down conditions. SQLite uses it to order
// joins.
struct Estimate {
  double read = 1;   // share of blocks read
  double given = 1;  // share of rows returned
};

void narrow(const QueriedTrace& source, const Word& word, Estimate& estimate) {
  const auto processes =
      static_cast<double>(std::max<size_t>(1, source.trace().processes().size()));
  switch (word.column) {
    case EventColumn::kBegin:
      estimate.read *= 0.25;
      estimate.given *= 0.25;
      break;
    case EventColumn::kPid:
    case EventColumn::kRank:
    case EventColumn::kProcess:
    case EventColumn::kHost:
      estimate.read /= processes;
      estimate.given /= processes;
      break;
    case EventColumn::kFile:
      estimate.given *= 0.01;
      break;
    default:
      estimate.given *= 0.1;
  }
}

// How one constraint can be used. '\0' if it cannot.
char usable_sign(sqlite3_index_info& info, int index, EventColumn column) {
  const auto& constraint = info.aConstraint[index];
  const char sign = range_sign(constraint.op);
  if (sign == '\0') return sign;
  if (column == EventColumn::kBegin) {
    // A list of times is not a range.
    return sqlite3_vtab_in(&info, index, -1) != 0 ? '\0' : sign;
  }
  if (sign != '=' || !is_in(kMatchColumns, column)) return '\0';
  if (is_in(kTextColumns, column) &&
      std::strcmp(sqlite3_vtab_collation(&info, index), "BINARY") != 0) {
    return '\0';
  }
  return sqlite3_vtab_in(&info, index, 1) != 0 ? 'i' : '=';
}

EventColumnSet used_columns(const EventsTable& table, uint64_t used) {
  EventColumnSet set = 0;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if ((used >> i & 1) != 0) set |= bit_of(table.columns[i]);
  }
  return set;
}

// For GROUP BY and DISTINCT. Not for ORDER BY alone, for which SQLite may need only the first few
// rows.
std::vector<GroupBy> groups_of(const EventsTable& table, sqlite3_index_info& info,
                               EventColumnSet used) {
  const int mode = sqlite3_vtab_distinct(&info);
  std::vector<GroupBy> groups;
  if (info.nOrderBy == 0 || mode == 0) return groups;
  const uint64_t events = table.source.trace().event_count();
  if (is_in(used, EventColumn::kTags) || events > std::numeric_limits<uint32_t>::max() ||
      events > kGatheredBytesMax / gathered_bytes_per_event(used)) {
    return groups;
  }
  for (int i = 0; i < info.nOrderBy; ++i) {
    const int column = info.aOrderBy[i].iColumn;
    if (column < 0 || !is_in(kGroupColumns, table.columns[static_cast<size_t>(column)])) return {};
    groups.push_back({table.columns[static_cast<size_t>(column)], info.aOrderBy[i].desc != 0});
  }
  return groups;
}

int best_index(sqlite3_vtab* vtab, sqlite3_index_info* info) noexcept {
  const EventsTable& table = table_of(vtab);
  Estimate estimate;
  std::string words;
  int values = 0;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (constraint.usable == 0 || constraint.iColumn < 0) continue;
    const EventColumn column = table.columns[static_cast<size_t>(constraint.iColumn)];
    const char how = usable_sign(*info, i, column);
    if (how == '\0') continue;
    info->aConstraintUsage[i].argvIndex = ++values;
    words += fmt::format(" {}{}", how, static_cast<int>(column));
    narrow(table.source, {column, how}, estimate);
  }
  const EventColumnSet used = used_columns(table, info->colUsed);
  const std::vector<GroupBy> groups = groups_of(table, *info, used);
  std::string plan = fmt::format("{}", used);
  for (const GroupBy& by : groups) {
    plan += fmt::format(" {}{}", by.descending ? 'G' : 'g', static_cast<int>(by.column));
  }
  info->orderByConsumed = groups.empty() ? 0 : 1;
  info->idxStr = sqlite3_mprintf("%s%s", plan.c_str(), words.c_str());
  info->needToFreeIdxStr = 1;
  if (info->idxStr == nullptr) return SQLITE_NOMEM;
  const auto events = static_cast<double>(table.source.trace().event_count() + 1);
  info->estimatedRows = std::max<sqlite3_int64>(1, std::llround(events * estimate.given));
  info->estimatedCost = 10 + events * estimate.read + 2 * events * estimate.given;
  return SQLITE_OK;
}

// ---- while it runs

// Converts a time relative to the first event of the job to the clock of the trace, and clamps it.
uint64_t on_clock(const QueriedTrace& source, int64_t begin) {
  const uint64_t first = source.begin_ns();
  if (begin < 0) {
    const uint64_t before = uint64_t{0} - static_cast<uint64_t>(begin);
    return before > first ? 0 : first - before;
  }
  const auto after = static_cast<uint64_t>(begin);
  return after > ~uint64_t{0} - first ? ~uint64_t{0} : first + after;
}

int64_t as_integer(double whole) {
  if (whole >= 9.2e18) return std::numeric_limits<int64_t>::max();
  if (whole <= -9.2e18) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(whole);
}

void narrow_begin(const QueriedTrace& source, char how, sqlite3_value* value, EventQuery& query) {
  const int type = sqlite3_value_numeric_type(value);
  if (type == SQLITE_NULL) query.nothing = true;
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) return;
  int64_t least = sqlite3_value_int64(value);
  int64_t most = least;
  if (type == SQLITE_FLOAT) {
    least = as_integer(std::floor(sqlite3_value_double(value)));
    most = as_integer(std::ceil(sqlite3_value_double(value)));
  }
  // < and > are treated as <= and >=, because SQLite checks again.
  if (how == '>' || how == '}' || how == '=') {
    query.begin_min_ns = std::max(query.begin_min_ns, on_clock(source, least));
  }
  if (how == '<' || how == '{' || how == '=') {
    query.begin_max_ns = std::min(query.begin_max_ns, on_clock(source, most));
  }
}

// Whether the value can be used: texts are compared with texts and numbers with numbers. For other
// types SQL converts, which is left to SQLite.
bool add_value(sqlite3_value* value, Match& match) {
  if (sqlite3_value_type(value) == SQLITE_NULL) return true;  // equals nothing
  if (is_in(kTextColumns, match.column)) {
    if (sqlite3_value_type(value) != SQLITE_TEXT) return false;
    const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
    match.texts.emplace_back(text, static_cast<size_t>(sqlite3_value_bytes(value)));
    return true;
  }
  if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER) return false;
  match.integers.push_back(sqlite3_value_int64(value));
  return true;
}

void add_match(EventColumn column, char how, sqlite3_value* value, EventQuery& query) {
  Match match{.column = column, .texts = {}, .integers = {}};
  bool usable = true;
  if (how == 'i') {
    sqlite3_value* each = nullptr;
    for (int code = sqlite3_vtab_in_first(value, &each); code == SQLITE_OK && each != nullptr;
         code = sqlite3_vtab_in_next(value, &each)) {
      usable = add_value(each, match) && usable;
    }
  } else {
    usable = add_value(value, match);
  }
  if (usable) query.matches.push_back(std::move(match));
}

EventQuery read_plan(const EventsTable& table, const char* plan, sqlite3_value** values) {
  EventQuery query;
  query.regions_only = table.regions_only;
  char* at = nullptr;
  query.used = static_cast<EventColumnSet>(std::strtoul(plan, &at, 10));
  while (*at == ' ') {
    const char how = at[1];
    const auto column = static_cast<EventColumn>(std::strtoul(at + 2, &at, 10));
    if (how == 'g' || how == 'G') {
      query.grouped_by.push_back({column, how == 'G'});
      query.used |= bit_of(column);
    } else if (column == EventColumn::kBegin) {
      narrow_begin(table.source, how, *values++, query);
    } else {
      add_match(column, how, *values++, query);
    }
  }
  return query;
}

int code_of(const EventsCursor& cursor) {
  return cursor.scan.stopped() ? SQLITE_INTERRUPT : SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* vcursor, int, const char* plan, int,
           sqlite3_value** values) noexcept {
  EventsCursor& cursor = cursor_of(vcursor);
  cursor.scan.start(read_plan(cursor.table, plan, values));
  return code_of(cursor);
}

int next(sqlite3_vtab_cursor* vcursor) noexcept {
  EventsCursor& cursor = cursor_of(vcursor);
  cursor.scan.next();
  return code_of(cursor);
}

int eof(sqlite3_vtab_cursor* cursor) noexcept { return cursor_of(cursor).scan.at_end() ? 1 : 0; }

int column(sqlite3_vtab_cursor* vcursor, sqlite3_context* result, int number) noexcept {
  EventsCursor& cursor = cursor_of(vcursor);
  const EventColumn wanted = cursor.table.columns[static_cast<size_t>(number)];
  const EventRow event = cursor.scan.event();
  if (!is_in(kTextColumns, wanted)) {
    if (const auto value = cursor.values.integer(wanted, event)) {
      sqlite3_result_int64(result, *value);
    }
    return SQLITE_OK;
  }
  if (const auto text = cursor.values.text(wanted, event)) {
    const bool made = wanted == EventColumn::kTags;
    sqlite3_result_text64(result, text->data(), text->size(),
                          made ? SQLITE_TRANSIENT : SQLITE_STATIC, SQLITE_UTF8);
  }
  return SQLITE_OK;
}

int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* number) noexcept {
  *number = cursor_of(cursor).scan.row_number();
  return SQLITE_OK;
}

sqlite3_module make_module() {
  auto module = module_of<Kind, EventsTable, EventsCursor>();
  module.xBestIndex = best_index;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = eof;
  module.xColumn = column;
  module.xRowid = rowid;
  return module;
}

}  // namespace

int register_events(sqlite3* connection, QueriedTrace& source) {
  static const sqlite3_module module = make_module();
  for (const bool regions_only : {false, true}) {
    const TableSchema& schema = table_schema(regions_only ? "regions" : "events");
    const int code =
        register_kind(connection, module,
                      Kind{.source = &source, .schema = &schema, .regions_only = regions_only});
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

}  // namespace millrace::query
