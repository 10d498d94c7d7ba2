// query: SQL over a trace, whose events, files, regions and processes are tables.
//
// SQLite works the queries out; the tables are virtual ones that read blocks as rows are asked for,
// so that a trace may be larger than the memory. What a query says about time, process, name, layer
// or file is used to leave out blocks and rows before SQLite sees them. docs/guide/query.md has the
// tables; schema.h has them as data.
//
// Nothing can be written: a query that is not one SELECT is refused. Not for several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/context.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::query {

struct Options {
  analyze::Options analyze;  // what regions mean; threads for the first use of `files`
  std::function<void(uint64_t events)> progress;  // so many more were read
  const std::atomic<bool>* stop = nullptr;        // set by a signal: the query ends, cancelled
};

enum class ValueKind : uint8_t { kNull, kInteger, kReal, kText, kBlob };

struct Value {
  ValueKind kind = ValueKind::kNull;
  int64_t integer = 0;
  double real = 0;
  std::string_view bytes;  // of a text or a blob; any bytes, as file names are
};

// Takes the result of a query, row by row.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Once, before the rows.
  virtual Status begin(const std::vector<std::string>& columns) = 0;
  // The values live until it returns. An error ends the query.
  virtual Status row(std::span<const Value> values) = 0;
};

// What reading cost, to see that a query leaves out what it can.
struct Counters {
  uint64_t blocks_read = 0;
  uint64_t blocks_skipped = 0;
  uint64_t rows = 0;  // of events and regions that SQLite was given
};

class Database {
 public:
  // `trace` must live as long. Fails where this build has no SQLite.
  static Result<Database> open(const trace::Trace& trace, Options options);

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  // One SELECT (or WITH, VALUES, EXPLAIN). Errors of SQL have SQLite's words and the place.
  Status run(std::string_view sql, RowSink& sink);

  // Blocks that could not be read, as sentences; their events are missing from the results.
  const std::vector<std::string>& problems() const;
  const Counters& counters() const;

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::query
