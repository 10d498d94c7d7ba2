#include "report/tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "base/text/json_writer.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "interop/encode_text.h"

namespace millrace::report {
namespace {

using analyze::EpochAction;
using analyze::EpochStats;
using analyze::Field;
using analyze::FileStats;
using analyze::FunctionStats;
using analyze::GroupStats;
using analyze::LayerStats;
using analyze::Profile;
using analyze::RankLoad;
using analyze::StepStats;
using analyze::TimeSplit;
using Headings = std::span<const TableHeading>;
using Row = std::vector<TableCell>;

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double rate(uint64_t amount, uint64_t ns) { return ratio(amount, ns) * 1e9; }

// Makes a table from the fields of structs. The first value that is added only defines the columns.
class TableMaker {
 public:
  TableMaker(std::string_view name, Headings headings)
      : table_{.name = std::string(name), .headings = headings} {}

  void begin_row() { table_.rows.emplace_back(); }
  ProfileTable finish() && { return std::move(table_); }

  void add(const auto& stats, const Field& in = {}) { visit_columns(*this, stats, in); }

  template <typename T>
  void add(std::string_view title, Unit unit, const T& value) {
    (*this)("", Field{.name = title, .unit = unit}, value);
  }

  // Visits a column.
  template <typename T>
  void operator()(std::string_view prefix, const Field& field, const T& value) {
    if (table_.rows.empty()) {
      table_.columns.push_back({analyze::column_name(prefix, field), field.unit});
    } else {
      table_.rows.back().push_back(cell(field, value));
    }
  }

 private:
  template <typename T>
  static TableCell cell(const Field& field, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return {.text = std::string(analyze::name_of(value))};
    } else if constexpr (std::is_arithmetic_v<T>) {
      return {.text = {}, .number = is_missing(field, value) ? 0 : static_cast<double>(value)};
    } else {
      return {.text = value};
    }
  }

  ProfileTable table_;
};

// `fill(maker, item)` adds the columns of one row.
template <typename T>
ProfileTable make_table(std::string_view name, Headings headings, const std::vector<T>& items,
                        const auto& fill) {
  TableMaker maker(name, headings);
  fill(maker, T());
  for (const T& item : items) {
    maker.begin_row();
    fill(maker, item);
  }
  return std::move(maker).finish();
}

ProfileTable by_function(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"name", "function"},
      {"layer", "layer"},
      {"count", "calls"},
      {"errors", "errors"},
      {"time_ns", "time"},
      {"bytes", "bytes"},
      {"size_bytes_median", "size median"},
      {"size_bytes_p99", "size p99"},
      {"latency_ns_median", "latency median"},
      {"latency_ns_p99", "latency p99"},
  };
  return make_table(
      "function", kHeadings, profile.functions,
      [&](TableMaker& row, const FunctionStats& function) {
        row.add(function);
        row.add("bytes_per_s", Unit::kBytesPerSecond, rate(function.bytes, function.time_ns));
        row.add("operations_per_s", Unit::kCount, rate(function.count, profile.job.wall_ns));
      });
}

ProfileTable by_layer(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"layer", "layer"},           {"count", "calls"},
      {"busy_ns", "time"},          {"overlapped_ns", "overlapped"},
      {"overlap", "overlap"},       {"bytes_read", "read"},
      {"bytes_written", "written"}, {"metadata_count", "metadata"},
      {"metadata_ns", "meta time"}, {"bytes_per_s", "rate"},
  };
  return make_table("layer", kHeadings, profile.layers,
                    [](TableMaker& row, const LayerStats& layer) {
                      row.add(layer);
                      row.add("overlap", Unit::kShare, ratio(layer.overlapped_ns, layer.busy_ns));
                      row.add("bytes_per_s", Unit::kBytesPerSecond,
                              rate(layer.bytes_read + layer.bytes_written, layer.busy_ns));
                      row.add("operations_per_s", Unit::kCount, rate(layer.count, layer.busy_ns));
                    });
}

ProfileTable by_file(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"path", "file"},
      {"kind", "kind"},
      {"opens", "opens"},
      {"reads", "reads"},
      {"writes", "writes"},
      {"bytes_read", "read"},
      {"bytes_written", "written"},
      {"read_ns", "reading"},
      {"write_ns", "writing"},
      {"metadata_ns", "meta"},
      {"size_bytes", "size"},
      {"ranks", "ranks"},
      {"readers", "readers"},
      {"epochs", "epochs"},
  };
  ProfileTable table =
      make_table("file", kHeadings, profile.files, [](TableMaker& row, const FileStats& file) {
        row.add(file);
        row.add("reads_per_epoch", Unit::kCount,
                static_cast<double>(file.io.reads) / std::max<uint32_t>(1, file.epochs));
      });
  table.cut = profile.job.files - std::min<uint64_t>(profile.job.files, profile.files.size());
  return table;
}

// The first heading is the name of the table.
ProfileTable by_group(Headings headings, const std::vector<GroupStats>& groups) {
  return make_table(headings[0].text, headings, groups,
                    [](TableMaker& row, const GroupStats& group) { row.add(group); });
}

constexpr std::array<TableHeading, 11> group_headings(std::string_view name) {
  return {{{"name", name},
           {"files", "files"},
           {"size_bytes", "size"},
           {"opens", "opens"},
           {"reads", "reads"},
           {"writes", "writes"},
           {"bytes_read", "read"},
           {"bytes_written", "written"},
           {"read_ns", "reading"},
           {"write_ns", "writing"},
           {"metadata_ns", "meta"}}};
}
constexpr auto kDirectoryHeadings = group_headings("directory");
constexpr auto kExtensionHeadings = group_headings("extension");
constexpr auto kKindHeadings = group_headings("kind");
constexpr auto kHostHeadings = group_headings("host");

ProfileTable by_rank(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"name", "rank"},
      {"wall_ns", "wall"},
      {"compute_ns", "compute"},
      {"io_ns", "I/O"},
      {"io_exposed_ns", "not overlapped"},
      {"wait_ns", "waiting"},
      {"wait_share", "share"},
      {"data_files", "files"},
      {"data_bytes_read", "data"},
  };
  return make_table("rank", kHeadings, profile.ranks, [&](TableMaker& row, const RankLoad& load) {
    const auto& times = profile.time.ranks;
    const auto time = std::find_if(times.begin(), times.end(),
                                   [&](const TimeSplit& split) { return split.name == load.name; });
    const auto add_once = [&](std::string_view prefix, const Field& field, const auto& value) {
      if (field.name != "wait_ns" && field.name != "compute_ns") row(prefix, field, value);
    };
    visit_columns(add_once, load);  // the split of the time has the other two
    row.add(time == times.end() ? TimeSplit() : *time, Field{.name = "time", .inlined = true});
  });
}

ProfileTable by_epoch(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"epoch", "epoch"},        {"steps", "steps"},      {"wall_ns", "wall"},
      {"compute_ns", "compute"}, {"io_ns", "I/O"},        {"io_exposed_ns", "not overlapped"},
      {"wait_ns", "waiting"},    {"wait_share", "share"}, {"files", "files"},
      {"bytes_read", "read"},
  };
  return make_table("epoch", kHeadings, profile.epochs,
                    [](TableMaker& row, const EpochStats& epoch) { row.add(epoch); });
}

// Epoch x action, as in NERSC's tables: the time in regions of each name, mean over the ranks.
ProfileTable by_action(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {{"epoch", "epoch"}, {"name", "action"},
                                               {"count", "count"}, {"mean_ns", "mean"},
                                               {"min_ns", "min"},  {"max_ns", "max"}};
  struct Action {
    int64_t epoch = 0;
    EpochAction of;
  };
  std::vector<Action> actions;
  for (const EpochStats& epoch : profile.epochs) {
    for (const EpochAction& action : epoch.actions) actions.push_back({epoch.epoch, action});
  }
  return make_table("action", kHeadings, actions, [](TableMaker& row, const Action& action) {
    row.add("epoch", Unit::kNone, action.epoch);
    row.add(action.of);
  });
}

ProfileTable by_step(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"name", "rank"},      {"epoch", "epoch"},          {"step", "step"},
      {"begin_ns", "begin"}, {"duration_ns", "duration"}, {"wait_ns", "waiting"}};
  const auto& steps = profile.steps.all.empty() ? profile.steps.slowest : profile.steps.all;
  return make_table("step", kHeadings, steps, [&](TableMaker& row, const StepStats& step) {
    const bool known = step.rank < profile.time.ranks.size();
    row.add("name", Unit::kText, known ? profile.time.ranks[step.rank].name : std::string("?"));
    row.add(step);
  });
}

ProfileTable by_stall(const Profile& profile) {
  static constexpr TableHeading kHeadings[] = {
      {"phase", "phase"}, {"region", "region"},       {"name", "call"},
      {"count", "calls"}, {"time_ns", "time"},        {"stall_ns", "stall"},
      {"gaps", "gaps"},   {"directory", "directory"}, {"files", "files"}};
  return make_table("stall", kHeadings, profile.stalls,
                    [](TableMaker& row, const analyze::Stall& stall) { row.add(stall); });
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
     [](const Profile& profile) { return by_group(kDirectoryHeadings, profile.directories); }},
    {"extension",
     [](const Profile& profile) { return by_group(kExtensionHeadings, profile.extensions); }},
    {"kind", [](const Profile& profile) { return by_group(kKindHeadings, profile.kinds); }},
    {"host", [](const Profile& profile) { return by_group(kHostHeadings, profile.hosts); }},
    {"rank", by_rank},
    {"epoch", by_epoch},
    {"action", by_action},
    {"step", by_step},
    {"stall", by_stall},
};

std::string shown(const TableCell& cell, Unit unit) {
  switch (unit) {
    case Unit::kText:
      return printable(cell.text);
    case Unit::kBytes:
      return format_bytes(static_cast<uint64_t>(cell.number));
    case Unit::kNs:
      return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(cell.number)));
    case Unit::kShare:
      return format_percent(cell.number);
    case Unit::kBytesPerSecond:
      return cell.number == 0 ? "" : format_bandwidth(cell.number);
    case Unit::kNone:
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
  std::vector<size_t> shown_columns;
  for (const TableHeading& heading : table.headings) {
    const auto column = std::ranges::find(table.columns, heading.column, &TableColumn::title);
    assert(column != table.columns.end());
    shown_columns.push_back(static_cast<size_t>(column - table.columns.begin()));
    const bool is_text = column->unit == Unit::kText;
    columns.push_back({.title = std::string(heading.text),
                       .align = is_text ? Table::Align::kLeft : Table::Align::kRight,
                       .may_shrink = is_text});
  }
  Table out(columns);
  for (size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    std::vector<Table::Cell> cells;
    for (const size_t c : shown_columns) {
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
