// query: SQL on a trace. Events, files, regions and processes are tables.
//
// SQLite runs the queries. The tables are virtual tables that read blocks on demand, so a trace may
// be larger than memory. Conditions on time, process, name, layer or file skip blocks and rows
// before SQLite sees them. docs/guide/query.md describes the tables; schema.h has them as data.
//
// Queries cannot write: only a single SELECT is allowed. Not thread-safe.
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
  analyze::Options analyze;  // roles of regions; number of threads for the first use of `files`
  std::function<void(uint64_t events)> progress;  // this many more events were read
  const std::atomic<bool>* stop = nullptr;        // set by a signal: cancels the query
};

enum class ValueKind : uint8_t { kNull, kInteger, kReal, kText, kBlob };

struct Value {
  ValueKind kind = ValueKind::kNull;
  int64_t integer = 0;
  double real = 0;
  std::string_view bytes;  // of a text or blob; any bytes, because file names are
};

// Receives the result of a query row by row.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Called once, before the rows.
  virtual Status begin(const std::vector<std::string>& columns) = 0;
  // The values are valid until it returns. An error ends the query.
  virtual Status row(std::span<const Value> values) = 0;
};

// The cost of reading, to check that a query skips what it can.
struct Counters {
  uint64_t blocks_read = 0;
  uint64_t blocks_skipped = 0;
  uint64_t rows = 0;  // rows of events and regions that SQLite received
};

class Database {
 public:
  // `trace` must outlive this. Fails if this build has no SQLite.
  static Result<Database> open(const trace::Trace& trace, Options options);

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  // Runs one SELECT (or WITH, VALUES, EXPLAIN). SQL errors contain SQLite's message and the
  // position.
  Status run(std::string_view sql, RowSink& sink);

  // Blocks that could not be read, as sentences. Their events are missing from the results.
  const std::vector<std::string>& problems() const;
  const Counters& counters() const;

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::query
