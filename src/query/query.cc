#include "query/query.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text/text.h"
#include "query/queried_trace.h"
#include "query/schema.h"
#include "query/virtual_tables.h"

namespace millrace::query {
namespace {

constexpr int kInstructionsBetweenChecks = 10'000;
constexpr size_t kExcerptColumns = 40;

struct Closer {
  void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, Closer>;
using Statement = std::unique_ptr<sqlite3_stmt, Closer>;

// Allows only reading. Everything else is denied, including actions that a later SQLite may add.
int authorize(void*, int action, const char* first, const char* second, const char*,
              const char*) noexcept {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION: {
      constexpr std::array<std::string_view, 2> kRefused = {"load_extension", "fts3_tokenizer"};
      const std::string_view name = second == nullptr ? "" : second;
      return std::find(kRefused.begin(), kRefused.end(), name) == kRefused.end() ? SQLITE_OK
                                                                                 : SQLITE_DENY;
    }
    case SQLITE_PRAGMA: {
      constexpr std::array<std::string_view, 3> kReading = {"table_info", "table_xinfo",
                                                            "function_list"};
      const std::string_view name = first == nullptr ? "" : first;
      return std::find(kReading.begin(), kReading.end(), name) != kReading.end() ? SQLITE_OK
                                                                                 : SQLITE_DENY;
    }
    default:
      return SQLITE_DENY;
  }
}

int is_stopped(void* source) noexcept {
  return static_cast<const QueriedTrace*>(source)->stopped() ? 1 : 0;
}

// "line 2, column 8, at 'nam from events'"
std::string place_of(std::string_view sql, size_t offset) {
  const std::string_view before = sql.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // 0 if there is no newline
  const size_t column = display_width(before.substr(line_start)) + 1;
  const std::string_view rest = sql.substr(offset);
  return fmt::format("line {}, column {}, at '{}'", line, column,
                     shorten(printable(rest.substr(0, rest.find('\n'))), kExcerptColumns));
}

Error sql_error(sqlite3* connection, int code, std::string_view sql) {
  if (code == SQLITE_INTERRUPT) return fail(Errc::kCancelled, "interrupted");
  const std::string words = printable(sqlite3_errmsg(connection));
  if (code == SQLITE_AUTH) {
    return fail(Errc::kPermission, "the query: {}; only a single SELECT is allowed", words);
  }
  const int offset = sqlite3_error_offset(connection);
  std::string place;
  if (offset >= 0 && static_cast<size_t>(offset) < sql.size()) {
    place = fmt::format(" ({})", place_of(sql, static_cast<size_t>(offset)));
  }
  const bool unknown = words.starts_with("no such column") || words.starts_with("no such table");
  return fail(
      code == SQLITE_NOMEM || code == SQLITE_FULL ? Errc::kExhausted : Errc::kInvalidArgument,
      "the query: {}{}{}", words, place,
      unknown ? "; `millrace query --schema` lists tables and columns" : "");
}

Value value_of(sqlite3_stmt* statement, int column) {
  const auto bytes = [&](const void* data) {
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
    return std::string_view(static_cast<const char*>(data), data == nullptr ? 0 : size);
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return {.kind = ValueKind::kInteger, .integer = sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return {.kind = ValueKind::kReal, .real = sqlite3_column_double(statement, column)};
    case SQLITE_TEXT:
      return {.kind = ValueKind::kText, .bytes = bytes(sqlite3_column_text(statement, column))};
    case SQLITE_BLOB:
      return {.kind = ValueKind::kBlob, .bytes = bytes(sqlite3_column_blob(statement, column))};
    default:
      return {};
  }
}

}  // namespace

struct Database::State {
  State(const trace::Trace& trace, Options options) : source(trace, std::move(options)) {}

  Result<Statement> prepare(std::string_view sql);
  Status check_single(std::string_view rest);

  QueriedTrace source;
  Connection connection;  // declared after the source, which its tables use until the end
};

Result<Database> Database::open(const trace::Trace& trace, Options options) {
  auto state = std::make_unique<State>(trace, std::move(options));
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(
      ":memory:", &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr);
  state->connection.reset(raw);
  // Sorting uses this much memory (in KiB) before it continues in unnamed temporary files.
  if (code == SQLITE_OK) {
    code = sqlite3_exec(raw, "PRAGMA cache_size = -262144", nullptr, nullptr, nullptr);
  }
  if (code == SQLITE_OK) code = register_events(raw, state->source);
  if (code == SQLITE_OK) code = register_rows(raw, state->source);
  if (code == SQLITE_OK) code = register_functions(raw);
  // Naming a table declares it. Later, declaring it would be denied as a change of the schema.
  for (const TableSchema& table : tables()) {
    if (code != SQLITE_OK) break;
    const std::string sql = fmt::format("SELECT 1 FROM {} LIMIT 0", table.name);
    code = sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr);
  }
  if (code == SQLITE_OK) code = sqlite3_set_authorizer(raw, authorize, nullptr);
  if (code != SQLITE_OK) {
    return fail(Errc::kIo, "cannot use SQLite: {}", sqlite3_errstr(code));
  }
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_progress_handler(raw, kInstructionsBetweenChecks, is_stopped, &state->source);
  return Database(std::move(state));
}

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Statement> Database::State::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sql.size() > 1'000'000) {
    return fail(Errc::kInvalidArgument, "the query is {} bytes long; the maximum is 1,000,000",
                sql.size());
  }
  const int code =
      sqlite3_prepare_v2(connection.get(), sql.data(), static_cast<int>(sql.size()), &raw, &rest);
  Statement statement(raw);
  if (code != SQLITE_OK) return sql_error(connection.get(), code, sql);
  if (statement == nullptr) return fail(Errc::kInvalidArgument, "the query is empty");
  if (sqlite3_stmt_readonly(raw) == 0 || sqlite3_column_count(raw) == 0) {
    return fail(Errc::kPermission, "the query: only a single SELECT is allowed");
  }
  if (sqlite3_bind_parameter_count(raw) > 0) {
    return fail(
        Errc::kInvalidArgument,
        "the query: parameters such as '{}' are not supported; write the value",
        sqlite3_bind_parameter_name(raw, 1) != nullptr ? sqlite3_bind_parameter_name(raw, 1) : "?");
  }
  RETURN_IF_ERROR(check_single(sql.substr(static_cast<size_t>(rest - sql.data()))));
  return statement;
}

// Only comments and spaces may follow, not another statement.
Status Database::State::check_single(std::string_view rest) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(connection.get(), rest.data(), static_cast<int>(rest.size()),
                                      &raw, nullptr);
  const Statement statement(raw);
  if (code == SQLITE_OK && statement == nullptr) return {};
  return fail(Errc::kInvalidArgument,
              "the query: another statement follows the ';'; run one query at a time");
}

Status Database::run(std::string_view sql, RowSink& sink) {
  ASSIGN_OR_RETURN(const Statement statement, state_->prepare(sql));
  const int count = sqlite3_column_count(statement.get());
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(sqlite3_column_name(statement.get(), i));
  RETURN_IF_ERROR(sink.begin(names));
  std::vector<Value> values(static_cast<size_t>(count));
  int code = sqlite3_step(statement.get());
  for (; code == SQLITE_ROW; code = sqlite3_step(statement.get())) {
    for (int i = 0; i < count; ++i) {
      values[static_cast<size_t>(i)] = value_of(statement.get(), i);
    }
    RETURN_IF_ERROR(sink.row(values));
  }
  if (code == SQLITE_DONE) return {};
  return sql_error(state_->connection.get(), code, sql);
}

const std::vector<std::string>& Database::problems() const { return state_->source.problems(); }
const Counters& Database::counters() const { return state_->source.counters(); }

}  // namespace millrace::query
