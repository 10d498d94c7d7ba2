#include "query/schema.h"

#include <fmt/core.h>

#include <cassert>

#include "query/event_columns.h"

namespace millrace::query {
namespace {

constexpr ColumnSchema kEvents[] = {
    {"name", "TEXT", "of the call, or of the region"},
    {"layer", "TEXT", "application, loader, format, mpiio, stdio or posix"},
    {"file", "TEXT", "path; NULL: a region, or a call without a file"},
    {"offset", "INTEGER", "bytes; NULL: the call has none"},
    {"size", "INTEGER", "bytes asked for; NULL: a region"},
    {"result", "INTEGER", "what the call returned, bytes where it moves bytes; NULL: a region"},
    {"begin", "INTEGER", "ns from the job's first event"},
    {"duration", "INTEGER", "ns"},
    {"errno", "INTEGER", "0: it did not fail"},
    {"pid", "INTEGER", "of the process"},
    {"tid", "INTEGER", "of the thread"},
    {"rank", "INTEGER", "NULL: the process has none"},
    {"host", "TEXT", "where it ran"},
    {"epoch", "INTEGER", "a region's own, else the one its rank was in; NULL: none"},
    {"step", "INTEGER", "likewise"},
    {"kind", "TEXT", "read, write, open, close, seek, sync, metadata, ..., region"},
    {"role", "TEXT", "of a region: compute, wait, fetch, ...; NULL: a call, or no known name"},
    {"other_file", "TEXT", "the second one of rename, copy_file_range, ...; NULL: none"},
    {"error", "TEXT", "the name of errno, as ENOENT; NULL: none"},
    {"detail", "INTEGER", "open flags, whence, advice: by call"},
    {"wall_ns", "INTEGER", "begin, in ns since 1970-01-01 UTC"},
    {"process", "INTEGER", "which of processes: pids are used again"},
    {"tags", "TEXT", "of a region, a JSON object; NULL: none"},
};
static_assert(std::size(kEvents) == kEventColumnCount);
static_assert(kEvents[static_cast<size_t>(EventColumn::kTags)].name == "tags");
static_assert(kEvents[static_cast<size_t>(EventColumn::kKind)].name == "kind");

constexpr ColumnSchema kFiles[] = {
    {"path", "TEXT", "as the calls name it"},
    {"kind", "TEXT", "data, checkpoint, output, system or other"},
    {"opens", "INTEGER", "calls that opened it"},
    {"reads", "INTEGER", "calls that read"},
    {"writes", "INTEGER", "calls that wrote"},
    {"seeks", "INTEGER", "calls"},
    {"syncs", "INTEGER", "calls"},
    {"metadata", "INTEGER", "calls: stat and the like"},
    {"maps", "INTEGER", "calls: mmap and the like"},
    {"errors", "INTEGER", "calls that failed"},
    {"bytes_read", "INTEGER", "that came in"},
    {"bytes_written", "INTEGER", "that went out"},
    {"read_time", "INTEGER", "ns in all its reads"},
    {"write_time", "INTEGER", "ns in writes and syncs"},
    {"metadata_time", "INTEGER", "ns in opens, closes, seeks, metadata"},
    {"first", "INTEGER", "begin of its first use, ns from the job's first event"},
    {"last", "INTEGER", "end of its last use"},
    {"size", "INTEGER", "the largest that was seen, by stat or by access"},
    {"size_known", "INTEGER", "1: by stat, by seeking to the end, or by a read that met it"},
    {"unique_bytes_read", "INTEGER", "different bytes of it; an estimate beyond 4 MiB"},
    {"shared_bytes_read", "INTEGER", "of those, read by several ranks"},
    {"ranks", "INTEGER", "that read or wrote it"},
    {"readers", "INTEGER", "ranks that read it"},
    {"epochs", "INTEGER", "in which it was read"},
    {"consecutive_reads", "INTEGER", "that began where the one before ended"},
    {"sequential_reads", "INTEGER", "that began there or further on"},
    {"small_reads", "INTEGER", "under 64 KiB"},
};

constexpr ColumnSchema kRegions[] = {
    {"name", "TEXT", "as the program gave it"},
    {"role", "TEXT", "compute, wait, fetch, ...; NULL: no known name"},
    {"epoch", "INTEGER", "its own, else the one its rank was in; NULL: none"},
    {"step", "INTEGER", "likewise"},
    {"begin", "INTEGER", "ns from the job's first event"},
    {"duration", "INTEGER", "ns"},
    {"pid", "INTEGER", "of the process"},
    {"tid", "INTEGER", "of the thread"},
    {"rank", "INTEGER", "NULL: the process has none"},
    {"host", "TEXT", "where it ran"},
    {"tags", "TEXT", "a JSON object; NULL: none"},
    {"layer", "TEXT", "application or loader"},
    {"process", "INTEGER", "which of processes"},
};

constexpr ColumnSchema kProcesses[] = {
    {"process", "INTEGER", "its number here: pids are used again, and exec keeps them"},
    {"pid", "INTEGER", "as the system numbered it"},
    {"parent", "INTEGER", "pid of the process that started it"},
    {"rank", "INTEGER", "NULL: it has none"},
    {"host", "TEXT", "where it ran"},
    {"command", "TEXT", "with its arguments"},
    {"start", "INTEGER", "ns from the job's first event"},
    {"end", "INTEGER", "of its last event, likewise"},
    {"exit_code", "INTEGER", "NULL: killed, replaced by exec, or still running"},
    {"events", "INTEGER", "recorded"},
    {"executable", "TEXT", "path"},
    {"working_directory", "TEXT", "when it started"},
    {"world_size", "INTEGER", "how many ranks there are; NULL: unknown"},
};

constexpr TableSchema kTables[] = {
    {"events", "every call and region", kEvents},
    {"files", "every file, over the whole job", kFiles},
    {"regions", "the events that are regions", kRegions},
    {"processes", "every program that ran", kProcesses},
};

}  // namespace

std::span<const TableSchema> tables() { return kTables; }

const TableSchema& table_schema(std::string_view name) {
  for (const TableSchema& table : kTables) {
    if (table.name == name) return table;
  }
  assert(false);
  return kTables[0];
}

std::string declaration(const TableSchema& table) {
  std::string text;
  for (const ColumnSchema& column : table.columns) {
    text += fmt::format("{}\"{}\" {}", text.empty() ? "" : ", ", column.name, column.type);
  }
  return fmt::format("CREATE TABLE \"{}\"({})", table.name, text);
}

}  // namespace millrace::query
