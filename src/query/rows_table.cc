// The tables `files` and `processes`: built on first use. An equality condition is a binary search.
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "query/event_columns.h"
#include "query/rows.h"
#include "query/schema.h"
#include "query/virtual_tables.h"

namespace millrace::query {
namespace {

struct Kind {
  QueriedTrace* source = nullptr;
  const TableSchema* schema = nullptr;
  Result<std::unique_ptr<Rows>> (*make)(QueriedTrace&) = nullptr;
};

struct RowsTable : sqlite3_vtab {
  explicit RowsTable(const Kind& of) : sqlite3_vtab{}, kind(of) {}

  const Kind& kind;
  std::unique_ptr<Rows> rows;          // null: not built yet
  std::map<size_t, RowIndex> indices;  // by column, built on demand
};

struct RowsCursor : sqlite3_vtab_cursor {
  explicit RowsCursor(RowsTable& of) : sqlite3_vtab_cursor{}, table(of) {}

  RowsTable& table;
  bool all = false;  // every row; otherwise those in `found`
  std::vector<uint32_t> found;
  // The last search: events of one file are mostly adjacent and repeat it.
  int found_plan = 0;
  std::string found_text;
  size_t place = 0;

  size_t count() const { return all ? table.rows->count() : found.size(); }
  size_t row() const { return all ? place : found[place]; }
};

RowsTable& table_of(sqlite3_vtab* table) { return *static_cast<RowsTable*>(table); }
RowsCursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<RowsCursor*>(cursor); }

// The plan (idxNum): 0 for all rows, else the column that equals a value, plus 1.
int best_index(sqlite3_vtab* vtab, sqlite3_index_info* info) noexcept {
  const TableSchema& schema = *table_of(vtab).kind.schema;
  info->idxNum = 0;
  info->estimatedCost = 1e5;  // the number of files is unknown until they are built
  info->estimatedRows = 10'000;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (constraint.usable == 0 || constraint.iColumn < 0 ||
        constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) {
      continue;
    }
    const bool text = schema.columns[static_cast<size_t>(constraint.iColumn)].type == "TEXT";
    if (text && std::strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->idxNum = constraint.iColumn + 1;
    const bool unique = constraint.iColumn == 0;  // path, process
    info->estimatedCost = unique ? 5 : 100;
    info->estimatedRows = unique ? 1 : 50;
    if (unique) info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    break;
  }
  return SQLITE_OK;
}

// Null kind: SQL converts before it compares, so that is left to SQLite.
Value wanted_value(sqlite3_value* value, bool text_column) {
  if (text_column) {
    if (sqlite3_value_type(value) != SQLITE_TEXT) return {};
    const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
    return {.kind = ValueKind::kText,
            .bytes = {text, static_cast<size_t>(sqlite3_value_bytes(value))}};
  }
  if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER) return {};
  return {.kind = ValueKind::kInteger, .integer = sqlite3_value_int64(value)};
}

int filter(sqlite3_vtab_cursor* vcursor, int plan, const char*, int,
           sqlite3_value** values) noexcept {
  RowsCursor& cursor = cursor_of(vcursor);
  RowsTable& table = cursor.table;
  if (table.rows == nullptr) {
    auto made = table.kind.make(*table.kind.source);
    if (!made.ok()) {
      set_error(table, made.error().message().c_str());
      return made.error().code() == Errc::kCancelled ? SQLITE_INTERRUPT : SQLITE_ERROR;
    }
    table.rows = *std::move(made);
  }
  cursor.place = 0;
  if (plan != 0 && plan == cursor.found_plan && sqlite3_value_type(values[0]) == SQLITE_TEXT &&
      wanted_value(values[0], true).bytes == cursor.found_text) {
    return SQLITE_OK;
  }
  cursor.found_plan = 0;
  cursor.found.clear();
  cursor.all = plan == 0;
  if (cursor.all) return SQLITE_OK;
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return SQLITE_OK;  // equals nothing
  const auto column = static_cast<size_t>(plan - 1);
  const bool text = table.kind.schema->columns[column].type == "TEXT";
  const Value wanted = wanted_value(values[0], text);
  cursor.all = wanted.kind == ValueKind::kNull;
  if (cursor.all) return SQLITE_OK;
  const auto index = table.indices.try_emplace(column, *table.rows, column).first;
  cursor.found = index->second.find(wanted);
  if (text) {
    cursor.found_plan = plan;
    cursor.found_text = wanted.bytes;
  }
  return SQLITE_OK;
}

int next(sqlite3_vtab_cursor* cursor) noexcept {
  ++cursor_of(cursor).place;
  return SQLITE_OK;
}

int eof(sqlite3_vtab_cursor* vcursor) noexcept {
  const RowsCursor& cursor = cursor_of(vcursor);
  return cursor.place >= cursor.count() ? 1 : 0;
}

int column(sqlite3_vtab_cursor* vcursor, sqlite3_context* result, int number) noexcept {
  const RowsCursor& cursor = cursor_of(vcursor);
  const Value value = cursor.table.rows->cell(cursor.row(), static_cast<size_t>(number));
  if (value.kind == ValueKind::kInteger) sqlite3_result_int64(result, value.integer);
  if (value.kind == ValueKind::kText) {
    sqlite3_result_text64(result, value.bytes.data(), value.bytes.size(), SQLITE_STATIC,
                          SQLITE_UTF8);
  }
  return SQLITE_OK;
}

int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* number) noexcept {
  *number = static_cast<sqlite3_int64>(cursor_of(cursor).row());
  return SQLITE_OK;
}

sqlite3_module make_module() {
  auto module = module_of<Kind, RowsTable, RowsCursor>();
  module.xBestIndex = best_index;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = eof;
  module.xColumn = column;
  module.xRowid = rowid;
  return module;
}

}  // namespace

int register_rows(sqlite3* connection, QueriedTrace& source) {
  static const sqlite3_module module = make_module();
  const Kind kinds[] = {
      {.source = &source, .schema = &table_schema("files"), .make = make_files},
      {.source = &source, .schema = &table_schema("processes"), .make = make_processes}};
  for (const Kind& kind : kinds) {
    const int code = register_kind(connection, module, kind);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

}  // namespace millrace::query
