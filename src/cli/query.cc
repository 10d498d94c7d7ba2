// The verb `query`: SQL over a trace.
#include "query/query.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/io/file.h"
#include "base/system/progress.h"
#include "base/text/json_writer.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "cli/options/inputs.h"
#include "cli/query_output.h"
#include "cli/verbs.h"
#include "query/schema.h"

namespace millrace::cli {
namespace {

// Width of the columns of a schema beside the name and the meaning: spaces and "INTEGER".
constexpr size_t kSchemaIndent = 13;
constexpr size_t kMeaningWidthMin = 30;

std::atomic<bool> interrupted = false;

// During its lifetime, Ctrl-C ends the query, not the process, so that imported files are removed.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C kills the process
    sigaction(SIGINT, nullptr, &before_);
    if (before_.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  }
  ~Interruptible() { sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_{};
};

Status check_query(const Arguments& arguments) {
  const size_t count = arguments.positionals().size();
  if (arguments.has("schema")) {
    return count == 0 ? Status() : fail(Errc::kInvalidArgument, "--schema takes no trace");
  }
  if (count == 0 && arguments.has("file")) {
    return fail(Errc::kInvalidArgument, "TRACE is missing: the trace to query");
  }
  if (count < 2 && !arguments.has("file")) {
    return fail(Errc::kInvalidArgument,
                "TRACE and SQL are missing; for example: millrace query t/ 'select ...'");
  }
  return {};
}

std::string schema_json() {
  JsonWriter json;
  json.begin_list();
  for (const query::TableSchema& table : query::tables()) {
    json.begin_object();
    json.field("table", table.name);
    json.field("meaning", table.meaning);
    json.key("columns");
    json.begin_list();
    for (const query::ColumnSchema& column : table.columns) {
      json.begin_object(JsonLayout::kOneLine);
      json.field("name", column.name);
      json.field("type", column.type);
      json.field("meaning", column.meaning);
      json.end_object();
    }
    json.end_list();
    json.end_object();
  }
  json.end_list();
  return std::move(json).finish();
}

std::string schema_text(const Terminal& terminal) {
  std::string out;
  for (const query::TableSchema& table : query::tables()) {
    if (!out.empty()) out += '\n';
    out += fmt::format("{}: {}\n", styled(table.name, Style::kBold, terminal.color), table.meaning);
    size_t indent = kSchemaIndent;
    for (const query::ColumnSchema& column : table.columns) {
      indent = std::max(indent, kSchemaIndent + column.name.size());
    }
    const size_t width = std::max(terminal.columns, indent + kMeaningWidthMin) - indent;
    Table columns({{.title = ""}, {.title = ""}, {.title = ""}});
    for (const query::ColumnSchema& column : table.columns) {
      std::string name = fmt::format("  {}", column.name);
      std::string type(column.type);
      for (const std::string& line : wrap(column.meaning, width)) {
        columns.add_row({std::exchange(name, ""), std::exchange(type, ""), line});
      }
    }
    out += columns.render(terminal);
  }
  return out;
}

// Removes the progress line before the first row, if rows are printed at once.
class WatchedPrinter : public query::RowSink {
 public:
  WatchedPrinter(query::RowSink& sink, std::optional<Progress>& progress, bool prints_at_once)
      : sink_(sink), progress_(progress), prints_at_once_(prints_at_once) {}

  Status begin(const std::vector<std::string>& columns) override { return sink_.begin(columns); }
  Status row(std::span<const query::Value> values) override {
    if (prints_at_once_) progress_.reset();
    return sink_.row(values);
  }

 private:
  query::RowSink& sink_;
  std::optional<Progress>& progress_;
  bool prints_at_once_;
};

struct Asked {
  std::vector<std::string> traces;
  std::string sql;
};

Status run_on(const Asked& asked, const Arguments& arguments, Output& output) {
  const auto jobs = interop::jobs_of(asked.traces, /*one_job=*/true);
  ASSIGN_OR_RETURN(const interop::OpenedJob job, interop::open_job(jobs.front()));
  warn_of(job.problems);
  warn_of(job.trace.problems());
  const ResultFormat format = arguments.has("csv")    ? ResultFormat::kCsv
                              : arguments.has("json") ? ResultFormat::kJson
                                                      : ResultFormat::kTable;
  query::Options options;
  for (const std::string& rule : arguments.values("role")) {
    ASSIGN_OR_RETURN(auto parsed, analyze::parse_role_rule(rule));
    options.analyze.roles.push_back(std::move(parsed));
  }
  const Interruptible interruptible;
  options.stop = &interrupted;
  std::optional<Progress> progress;
  progress.emplace(Progress::Options{.label = "reading", .total = job.trace.event_count()});
  options.progress = [&progress](uint64_t events) {
    if (progress) progress->add(events);
  };
  ASSIGN_OR_RETURN(query::Database database, query::Database::open(job.trace, std::move(options)));
  const auto printer = make_printer(format, output);
  WatchedPrinter watched(*printer, progress, format != ResultFormat::kTable);
  const Status status = database.run(asked.sql, watched);
  progress.reset();
  if (!status.ok()) return status.error();
  printer->finish();
  warn_of(database.problems());
  return {};
}

Result<int> run_query(const Arguments& arguments, Output& output) {
  if (arguments.has("schema")) {
    output.print(arguments.has("json") ? schema_json() : schema_text(output.terminal()));
    return kExitSuccess;
  }
  Asked asked{.traces = arguments.positionals(), .sql = ""};
  if (const auto path = arguments.value("file")) {
    ASSIGN_OR_RETURN(asked.sql, read_file(*path));
  } else {
    asked.sql = asked.traces.back();
    asked.traces.pop_back();
  }
  const Status status = run_on(asked, arguments, output);
  // Imported files are removed by now: die from the signal.
  if (interrupted) raise(SIGINT);
  if (!status.ok()) return status.error();
  return kExitSuccess;
}

}  // namespace

Command query_command() {
  Positional traces = traces_positional();
  traces.required = false;
  return {
      .name = "query",
      .summary = "query a trace with SQL",
      .description =
          "The events, files, regions and processes of a trace are tables of a read-only SQLite "
          "database. All paths together are one job. Times are in ns; `begin` counts from the "
          "first event of the job. Conditions on begin, name, kind, layer, file, pid, rank and "
          "host reduce what is read. `--schema` shows all columns.",
      .options = {json_option(),
                  {.name = "csv", .help = "print the rows as CSV", .alternatives = {"json"}},
                  {.name = "file",
                   .letter = 'f',
                   .value = "FILE",
                   .help = "read the query from this file; all arguments are then traces",
                   .kind = ValueKind::kFile},
                  {.name = "schema",
                   .help = "show the tables with columns, types and meanings",
                   .alternatives = {"csv", "file", "role"}},
                  {.name = "role",
                   .value = "ROLE=NAME",
                   .help = "assign a role to regions, for example compute=fwd_*",
                   .check = check_role,
                   .repeatable = true}},
      .positionals = {std::move(traces),
                      {.name = "SQL",
                       .help = "one SELECT, in quotes",
                       .kind = ValueKind::kFile,  // so that shells complete the paths before it
                       .required = false}},
      .examples =
          {{"millrace query --schema", "all tables and columns"},
           {"millrace query t/ 'select name, count(*), sum(duration) from events group by name'",
            "number and time of calls"},
           {"millrace query t/ 'select * from files order by read_ns desc limit 10'",
            "the files that took longest to read"},
           {"millrace query t/ --csv -f stalls.sql > stalls.csv",
            "a longer query, with the result as CSV"},
           {"millrace query node*.mrt 'select rank, max(duration) from events group by rank'",
            "several files of one job"}},
      .check = check_query,
      .run = run_query,
  };
}

}  // namespace millrace::cli
