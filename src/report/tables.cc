#include "report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "interop/encode_text.h"

namespace millrace::report {
namespace {

using analyze::Distribution;
using analyze::GroupStats;
using analyze::IoTotals;
using analyze::Profile;
using analyze::TimeSplit;
using Row = std::vector<TableCell>;

TableCell text(std::string_view value) { return {.text = std::string(value)}; }
TableCell number(auto value) { return {.text = {}, .number = static_cast<double>(value)}; }

double rate(uint64_t amount, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(amount) * 1e9 / static_cast<double>(ns);
}

void add_distribution(const Distribution& of, Row& row) {
  for (const uint64_t value : {of.min, of.p25}) row.push_back(number(value));
  row.push_back(number(of.mean));
  for (const uint64_t value : {of.median, of.p75, of.p95, of.p99, of.max}) {
    row.push_back(number(value));
  }
}

void add_distribution_columns(const std::string& what, const std::string& ending, Unit unit,
                              std::vector<TableColumn>& columns) {
  for (const char* name : {"min", "p25", "mean", "median", "p75", "p95", "p99", "max"}) {
    // Text shows the median and the tail; CSV and JSON have all.
    const bool shown = std::string_view(name) == "median" || std::string_view(name) == "p99";
    columns.push_back({fmt::format("{}_{}_{}", what, name, ending),
                       shown ? fmt::format("{} {}", what, name) : "", unit});
  }
}

ProfileTable by_function(const Profile& profile) {
  ProfileTable table{.name = "function",
                     .columns = {{"function", "function", Unit::kText},
                                 {"layer", "layer", Unit::kText},
                                 {"count", "calls", Unit::kCount},
                                 {"errors", "errors", Unit::kCount},
                                 {"time_ns", "time", Unit::kDuration},
                                 {"bytes", "bytes", Unit::kBytes},
                                 {"bytes_per_s", "", Unit::kRate},
                                 {"operations_per_s", "", Unit::kCount}},
                     .rows = {}};
  add_distribution_columns("size", "bytes", Unit::kBytes, table.columns);
  add_distribution_columns("latency", "ns", Unit::kDuration, table.columns);
  for (const analyze::FunctionStats& function : profile.functions) {
    Row row = {text(function.name),
               text(analyze::kLayerNames[static_cast<size_t>(function.layer)]),
               number(function.count),
               number(function.errors),
               number(function.time_ns),
               number(function.bytes),
               number(rate(function.bytes, function.time_ns)),
               number(rate(function.count, profile.job.wall_ns))};
    add_distribution(function.size_bytes, row);
    add_distribution(function.latency_ns, row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

ProfileTable by_layer(const Profile& profile) {
  ProfileTable table{.name = "layer",
                     .columns = {{"layer", "layer", Unit::kText},
                                 {"count", "calls", Unit::kCount},
                                 {"time_ns", "time", Unit::kDuration},
                                 {"busy_ns", "busy", Unit::kDuration},
                                 {"hidden_ns", "overlapped", Unit::kDuration},
                                 {"overlap", "overlap", Unit::kShare},
                                 {"bytes_read", "read", Unit::kBytes},
                                 {"bytes_written", "written", Unit::kBytes},
                                 {"metadata_count", "metadata", Unit::kCount},
                                 {"metadata_ns", "meta time", Unit::kDuration},
                                 {"bytes_per_s", "rate", Unit::kRate},
                                 {"operations_per_s", "", Unit::kCount}},
                     .rows = {}};
  for (const analyze::LayerStats& layer : profile.layers) {
    const double overlap = layer.busy_ns == 0 ? 0
                                              : static_cast<double>(layer.hidden_ns) /
                                                    static_cast<double>(layer.busy_ns);
    table.rows.push_back({text(analyze::kLayerNames[static_cast<size_t>(layer.layer)]),
                          number(layer.count), number(layer.time_ns), number(layer.busy_ns),
                          number(layer.hidden_ns), number(overlap), number(layer.bytes_read),
                          number(layer.bytes_written), number(layer.metadata_count),
                          number(layer.metadata_ns),
                          number(rate(layer.bytes_read + layer.bytes_written, layer.busy_ns)),
                          number(rate(layer.count, layer.busy_ns))});
  }
  return table;
}

void add_io_columns(std::vector<TableColumn>& columns) {
  const TableColumn io[] = {
      {"opens", "opens", Unit::kCount},
      {"reads", "reads", Unit::kCount},
      {"writes", "writes", Unit::kCount},
      {"seeks", "", Unit::kCount},
      {"syncs", "", Unit::kCount},
      {"metadata", "", Unit::kCount},
      {"maps", "", Unit::kCount},
      {"errors", "", Unit::kCount},
      {"bytes_read", "read", Unit::kBytes},
      {"bytes_written", "written", Unit::kBytes},
      {"read_ns", "reading", Unit::kDuration},
      {"write_ns", "writing", Unit::kDuration},
      {"metadata_ns", "meta", Unit::kDuration},
      {"first_ns", "", Unit::kDuration},
      {"last_ns", "", Unit::kDuration},
  };
  columns.insert(columns.end(), std::begin(io), std::end(io));
}

void add_io(const IoTotals& io, Row& row) {
  for (const uint64_t value :
       {io.opens, io.reads, io.writes, io.seeks, io.syncs, io.metadata, io.maps, io.errors,
        io.bytes_read, io.bytes_written, io.read_ns, io.write_ns, io.metadata_ns,
        io.first_ns == ~uint64_t{0} ? 0 : io.first_ns, io.last_ns}) {
    row.push_back(number(value));
  }
}

ProfileTable by_file(const Profile& profile) {
  ProfileTable table{.name = "file",
                     .columns = {{"path", "file", Unit::kText}, {"kind", "kind", Unit::kText}},
                     .rows = {}};
  add_io_columns(table.columns);
  const TableColumn more[] = {
      {"size_bytes", "size", Unit::kBytes},    {"unique_bytes_read", "", Unit::kBytes},
      {"shared_bytes_read", "", Unit::kBytes}, {"readers", "ranks", Unit::kCount},
      {"reader_ranks", "", Unit::kText},       {"epochs", "epochs", Unit::kCount},
      {"reads_per_epoch", "", Unit::kCount},   {"consecutive", "", Unit::kCount},
      {"sequential", "", Unit::kCount}};
  table.columns.insert(table.columns.end(), std::begin(more), std::end(more));
  for (const analyze::FileStats& file : profile.files) {
    Row row = {text(file.path), text(analyze::kFileKindNames[static_cast<size_t>(file.kind)])};
    add_io(file.io, row);
    row.push_back(number(file.size_bytes));
    row.push_back(number(file.unique_bytes_read));
    row.push_back(number(file.shared_bytes_read));
    row.push_back(number(file.readers));
    row.push_back(text(file.reader_ranks));
    row.push_back(number(file.epochs));
    row.push_back(number(static_cast<double>(file.io.reads) /
                         static_cast<double>(std::max<uint32_t>(1, file.epochs))));
    row.push_back(number(file.read.consecutive));
    row.push_back(number(file.read.sequential));
    table.rows.push_back(std::move(row));
  }
  table.cut = profile.job.files - std::min<uint64_t>(profile.job.files, profile.files.size());
  return table;
}

ProfileTable by_group(std::string_view name, const std::vector<GroupStats>& groups) {
  ProfileTable table{.name = std::string(name),
                     .columns = {{std::string(name), std::string(name), Unit::kText},
                                 {"files", "files", Unit::kCount},
                                 {"size_bytes", "size", Unit::kBytes}},
                     .rows = {}};
  add_io_columns(table.columns);
  for (const GroupStats& group : groups) {
    Row row = {text(group.name), number(group.files), number(group.size_bytes)};
    add_io(group.io, row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_time_columns(std::vector<TableColumn>& columns) {
  const TableColumn time[] = {{"wall_ns", "wall", Unit::kDuration},
                              {"compute_ns", "compute", Unit::kDuration},
                              {"io_ns", "I/O", Unit::kDuration},
                              {"io_unhidden_ns", "not overlapped", Unit::kDuration},
                              {"compute_unhidden_ns", "", Unit::kDuration},
                              {"fetch_ns", "", Unit::kDuration},
                              {"decode_ns", "", Unit::kDuration},
                              {"checkpoint_ns", "", Unit::kDuration},
                              {"wait_ns", "waiting", Unit::kDuration},
                              {"wait_share", "share", Unit::kShare},
                              {"idle_ns", "", Unit::kDuration}};
  columns.insert(columns.end(), std::begin(time), std::end(time));
}

void add_time(const TimeSplit& split, Row& row) {
  for (const uint64_t value : {split.wall_ns, split.compute_ns, split.io_ns, split.io_unhidden_ns,
                               split.compute_unhidden_ns, split.fetch_ns, split.decode_ns,
                               split.checkpoint_ns, split.wait_ns}) {
    row.push_back(number(value));
  }
  row.push_back(number(split.wait_share));
  row.push_back(number(split.idle_ns));
}

ProfileTable by_rank(const Profile& profile) {
  ProfileTable table{.name = "rank",
                     .columns = {{"rank", "rank", Unit::kText}, {"host", "", Unit::kText}},
                     .rows = {}};
  add_time_columns(table.columns);
  table.columns.push_back({"data_files", "files", Unit::kCount});
  table.columns.push_back({"data_bytes_read", "data", Unit::kBytes});
  table.columns.push_back({"reads_in_flight", "", Unit::kCount});
  for (const analyze::RankLoad& load : profile.ranks) {
    const auto time = std::find_if(profile.time.ranks.begin(), profile.time.ranks.end(),
                                   [&](const TimeSplit& split) { return split.name == load.name; });
    Row row = {text(load.name), text(load.host)};
    add_time(time == profile.time.ranks.end() ? TimeSplit() : *time, row);
    row.push_back(number(load.data_files));
    row.push_back(number(load.data_bytes_read));
    row.push_back(number(load.reads_in_flight));
    table.rows.push_back(std::move(row));
  }
  return table;
}

ProfileTable by_epoch(const Profile& profile) {
  ProfileTable table{
      .name = "epoch",
      .columns = {{"epoch", "epoch", Unit::kCount}, {"steps", "steps", Unit::kCount}},
      .rows = {}};
  add_time_columns(table.columns);
  table.columns.push_back({"files", "files", Unit::kCount});
  table.columns.push_back({"bytes_read", "read", Unit::kBytes});
  for (const analyze::EpochStats& epoch : profile.epochs) {
    Row row = {number(epoch.epoch), number(epoch.steps)};
    add_time(epoch.time, row);
    row.push_back(number(epoch.files));
    row.push_back(number(epoch.io.bytes_read));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Epoch x action, as in NERSC's tables: the time in regions of each name, mean over the ranks.
ProfileTable by_action(const Profile& profile) {
  ProfileTable table{.name = "action",
                     .columns = {{"epoch", "epoch", Unit::kCount},
                                 {"action", "action", Unit::kText},
                                 {"count", "count", Unit::kCount},
                                 {"mean_ns", "mean", Unit::kDuration},
                                 {"min_ns", "min", Unit::kDuration},
                                 {"max_ns", "max", Unit::kDuration}},
                     .rows = {}};
  for (const analyze::EpochStats& epoch : profile.epochs) {
    for (const analyze::EpochAction& action : epoch.actions) {
      table.rows.push_back({number(epoch.epoch), text(action.name), number(action.count),
                            number(action.mean_ns), number(action.min_ns), number(action.max_ns)});
    }
  }
  return table;
}

ProfileTable by_step(const Profile& profile) {
  ProfileTable table{.name = "step",
                     .columns = {{"rank", "rank", Unit::kText},
                                 {"epoch", "epoch", Unit::kCount},
                                 {"step", "step", Unit::kCount},
                                 {"begin_ns", "begin", Unit::kDuration},
                                 {"duration_ns", "duration", Unit::kDuration},
                                 {"wait_ns", "waiting", Unit::kDuration}},
                     .rows = {}};
  for (const analyze::StepStats& step :
       profile.steps.all.empty() ? profile.steps.slowest : profile.steps.all) {
    const bool known = step.rank < profile.time.ranks.size();
    table.rows.push_back({text(known ? profile.time.ranks[step.rank].name : "?"),
                          number(step.epoch), number(step.step), number(step.begin_ns),
                          number(step.duration_ns), number(step.wait_ns)});
  }
  return table;
}

struct TableEntry {
  std::string_view name;
  ProfileTable (*make)(const Profile& profile);
};

constexpr TableEntry kTables[] = {
    {"function", by_function},
    {"layer", by_layer},
    {"file", by_file},
    {"directory",
     [](const Profile& profile) { return by_group("directory", profile.directories); }},
    {"extension", [](const Profile& profile) { return by_group("extension", profile.extensions); }},
    {"kind", [](const Profile& profile) { return by_group("kind", profile.kinds); }},
    {"host", [](const Profile& profile) { return by_group("host", profile.hosts); }},
    {"rank", by_rank},
    {"epoch", by_epoch},
    {"action", by_action},
    {"step", by_step},
};

std::string shown(const TableCell& cell, Unit unit) {
  switch (unit) {
    case Unit::kText:
      return printable(cell.text);
    case Unit::kBytes:
      return format_bytes(static_cast<uint64_t>(cell.number));
    case Unit::kDuration:
      return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(cell.number)));
    case Unit::kShare:
      return format_percent(cell.number);
    case Unit::kRate:
      return cell.number == 0 ? "" : format_bandwidth(cell.number);
    case Unit::kCount:
      break;
  }
  return cell.number == std::floor(cell.number) && std::abs(cell.number) < 1e6
             ? fmt::format("{}", static_cast<int64_t>(cell.number))
             : format_count(cell.number);
}

bool is_whole(double value) { return value == std::floor(value) && std::abs(value) < 9e15; }

}  // namespace

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const TableEntry& entry : kTables) names.emplace_back(entry.name);
  return names;
}

ProfileTable table_by(const Profile& profile, std::string_view name) {
  for (const TableEntry& entry : kTables) {
    if (entry.name == name) return entry.make(profile);
  }
  return {};
}

std::string table_text(const ProfileTable& table, size_t rows, const Terminal& terminal) {
  std::vector<Table::Column> columns;
  for (const TableColumn& column : table.columns) {
    if (column.heading.empty()) continue;
    const bool is_text = column.unit == Unit::kText;
    columns.push_back({.title = column.heading,
                       .align = is_text ? Table::Align::kLeft : Table::Align::kRight,
                       .may_shrink = is_text});
  }
  Table out(columns);
  for (size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    std::vector<Table::Cell> cells;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].heading.empty()) continue;
      cells.emplace_back(shown(table.rows[i][c], table.columns[c].unit));
    }
    out.add_row(std::move(cells));
  }
  std::string text = out.render(terminal);
  const size_t omitted = table.rows.size() - std::min(rows, table.rows.size()) + table.cut;
  if (omitted > 0) text += fmt::format("and {} more\n", format_exact(omitted));
  return text;
}

std::string table_csv(const ProfileTable& table) {
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (c > 0) out += ',';
    out += table.columns[c].title;
  }
  out += "\n";
  for (const Row& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) out += ',';
      if (table.columns[c].unit == Unit::kText) {
        interop::append_csv_text(out, row[c].text);
      } else if (is_whole(row[c].number)) {
        interop::append_integer(out, static_cast<int64_t>(row[c].number));
      } else {
        interop::append_number(out, row[c].number);
      }
    }
    out += "\n";
  }
  return out;
}

std::string table_json(const ProfileTable& table) {
  JsonWriter json;
  json.begin_object();
  json.key("by");
  json.value(table.name);
  json.key("rows");
  json.begin_list();
  for (const Row& row : table.rows) {
    json.begin_object();
    for (size_t c = 0; c < row.size(); ++c) {
      json.key(table.columns[c].title);
      if (table.columns[c].unit == Unit::kText) {
        json.value(row[c].text);
      } else if (is_whole(row[c].number)) {
        json.value(static_cast<int64_t>(row[c].number));
      } else {
        json.value(row[c].number);
      }
    }
    json.end_object();
  }
  json.end_list();
  json.key("left_out");
  json.value(static_cast<uint64_t>(table.cut));
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::report
