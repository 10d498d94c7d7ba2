#include "query/schema.h"

#include <fmt/core.h>

#include <cassert>
#include <deque>
#include <string>
#include <vector>

#include "analyze/profile/profile.h"
#include "query/event_columns.h"

namespace millrace::query {
namespace {

constexpr ColumnSchema kEvents[] = {
    {"name", "TEXT", "name of the call or region"},
    {"layer", "TEXT", "application, loader, format, mpiio, stdio or posix"},
    {"file", "TEXT", "path; NULL: a region, or a call without a file"},
    {"offset", "INTEGER", "bytes; NULL: the call has none"},
    {"size", "INTEGER", "bytes asked for; NULL: a region"},
    {"result", "INTEGER", "what the call returned: bytes if it moves bytes; NULL: a region"},
    {"begin", "INTEGER", "ns since the first event of the job"},
    {"duration", "INTEGER", "ns"},
    {"errno", "INTEGER", "0: no error"},
    {"pid", "INTEGER", "process ID"},
    {"tid", "INTEGER", "thread ID"},
    {"rank", "INTEGER", "rank of the process, or the rank whose worker it is; NULL: none"},
    {"host", "TEXT", "host of the process"},
    {"epoch", "INTEGER", "of the region, else the one that its rank read for; NULL: none"},
    {"step", "INTEGER", "of the region, else the one that its rank was in; NULL: none"},
    {"kind", "TEXT", "read, write, open, close, seek, sync, metadata, ..., region"},
    {"role", "TEXT",
     "role of a region: compute, wait, fetch, ...; NULL: a call, or an unknown name"},
    {"other_file", "TEXT", "second file of rename, copy_file_range, ...; NULL: none"},
    {"error", "TEXT", "name of errno, for example ENOENT; NULL: none"},
    {"detail", "INTEGER", "depends on the call: open flags, whence, advice"},
    {"wall_ns", "INTEGER", "begin in ns since 1970-01-01 UTC"},
    {"process", "INTEGER", "row number in processes: pids are reused"},
    {"tags", "TEXT", "tags of a region as a JSON object; NULL: none"},
};
static_assert(std::size(kEvents) == kEventColumnCount);
static_assert(kEvents[static_cast<size_t>(EventColumn::kTags)].name == "tags");
static_assert(kEvents[static_cast<size_t>(EventColumn::kKind)].name == "kind");

constexpr ColumnSchema kRegions[] = {
    {"name", "TEXT", "name in the program"},
    {"role", "TEXT", "compute, wait, fetch, ...; NULL: an unknown name"},
    {"epoch", "INTEGER", "of the region, else the one that its rank read for; NULL: none"},
    {"step", "INTEGER", "of the region, else the one that its rank was in; NULL: none"},
    {"begin", "INTEGER", "ns since the first event of the job"},
    {"duration", "INTEGER", "ns"},
    {"pid", "INTEGER", "process ID"},
    {"tid", "INTEGER", "thread ID"},
    {"rank", "INTEGER", "rank of the process, or the rank whose worker it is; NULL: none"},
    {"host", "TEXT", "host of the process"},
    {"tags", "TEXT", "a JSON object; NULL: none"},
    {"layer", "TEXT", "application or loader"},
    {"process", "INTEGER", "row number in processes"},
};

constexpr ColumnSchema kProcesses[] = {
    {"process", "INTEGER", "row number: pids are reused, exec keeps them"},
    {"pid", "INTEGER", "process ID"},
    {"parent", "INTEGER", "pid of the process that started it"},
    {"rank", "INTEGER", "its own, or the rank whose worker it is; NULL: none"},
    {"host", "TEXT", "host of the process"},
    {"command", "TEXT", "command with arguments"},
    {"start", "INTEGER", "ns since the first event of the job"},
    {"end", "INTEGER", "end of its last event, in the same unit"},
    {"exit_code", "INTEGER", "NULL: killed, replaced by exec, or still running"},
    {"events", "INTEGER", "number of recorded events"},
    {"executable", "TEXT", "path of the program"},
    {"working_directory", "TEXT", "at the start"},
    {"world_size", "INTEGER", "number of ranks; NULL: unknown"},
};

// The fields of analyze::FileStats.
class FileColumnNames {
 public:
  FileColumnNames() { visit_columns(*this, analyze::FileStats()); }

  template <typename T>
  void operator()(std::string_view prefix, const analyze::Field& field, const T&) {
    const bool is_text = field.unit == analyze::Unit::kText;
    names_.push_back(column_name(prefix, field));
    meanings_.push_back(meaning_of(prefix, field.meaning));
    columns.push_back({names_.back(), is_text ? "TEXT" : "INTEGER", meanings_.back()});
  }

  std::vector<ColumnSchema> columns;

 private:
  // The fields of analyze::AccessCounts are the same for both directions.
  static std::string meaning_of(std::string_view prefix, std::string_view meaning) {
    if (prefix != "read" && prefix != "write") return std::string(meaning);
    const bool writes = prefix == "write";
    if (writes && meaning.find("read") != std::string_view::npos) {
      return "0: only reads have it";
    }
    std::string text(meaning);
    constexpr std::string_view kWord = "accesses";
    for (size_t at = text.find(kWord); at != std::string::npos; at = text.find(kWord, at)) {
      text.replace(at, kWord.size(), writes ? "writes" : "reads");
    }
    return text;
  }

  std::deque<std::string> names_;  // columns point to them
  std::deque<std::string> meanings_;
};

}  // namespace

std::span<const TableSchema> tables() {
  static const FileColumnNames files;
  static const TableSchema tables[] = {
      {"events", "every call and region", kEvents},
      {"files", "every file, over the whole job", files.columns},
      {"regions", "the events that are regions", kRegions},
      {"processes", "every program that ran", kProcesses},
  };
  return tables;
}

const TableSchema& table_schema(std::string_view name) {
  for (const TableSchema& table : tables()) {
    if (table.name == name) return table;
  }
  assert(false);
  return tables()[0];
}

std::string declaration(const TableSchema& table) {
  std::string text;
  for (const ColumnSchema& column : table.columns) {
    text += fmt::format("{}\"{}\" {}", text.empty() ? "" : ", ", column.name, column.type);
  }
  return fmt::format("CREATE TABLE \"{}\"({})", table.name, text);
}

}  // namespace millrace::query
