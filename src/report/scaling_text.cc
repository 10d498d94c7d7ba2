#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "report/scaling.h"

namespace millrace::report {
namespace {

std::string duration(double ns) {
  return format_duration(std::chrono::nanoseconds(std::llround(std::clamp(ns, 0.0, 9e18))));
}

std::string sentence(const Scaling& scaling) {
  const std::string_view against = scaling.against_hosts ? "hosts" : "ranks";
  const std::string_view unit = kPerNames[static_cast<size_t>(scaling.per)];
  switch (scaling.kind) {
    case ScalingKind::kNone:
      return "All jobs have the same size; speed-ups are relative to the first.";
    case ScalingKind::kStrong:
      return fmt::format("Strong scaling: the same total work, compared by the time of one {}.",
                         unit);
    case ScalingKind::kWeak:
      return fmt::format(
          "Weak scaling: the work grows with the {}, compared by the time of one {}.", against,
          unit);
    case ScalingKind::kMixed:
      break;
  }
  return fmt::format(
      "Mixed scaling: the work neither stays the same nor grows with the {}. Speed-ups compare the "
      "work per time, with the size of the dataset as work.",
      against);
}

}  // namespace

std::string scaling_text(const Scaling& scaling, const Terminal& terminal) {
  using Align = Table::Align;
  if (scaling.rows.empty()) return "";
  std::string unit(kPerNames[static_cast<size_t>(scaling.per)]);
  Table table({{.title = "job", .may_shrink = true},
               {.title = "hosts", .align = Align::kRight},
               {.title = "ranks", .align = Align::kRight},
               {.title = scaling.per == Per::kJob ? "wall" : unit, .align = Align::kRight},
               {.title = "speed-up", .align = Align::kRight},
               {.title = "effic.", .align = Align::kRight},
               {.title = "I/O", .align = Align::kRight},
               {.title = "wait", .align = Align::kRight},
               {.title = "read", .align = Align::kRight}});
  for (const ScalingRow& row : scaling.rows) {
    const bool known = row.speed_up > 0;
    table.add_row({printable(row.name), fmt::format("{}", row.hosts), fmt::format("{}", row.ranks),
                   duration(row.unit_ns), known ? fmt::format("{:.2f}", row.speed_up) : "-",
                   known ? format_percent(row.efficiency) : "-", format_percent(row.io_share),
                   format_percent(row.wait_share), format_bandwidth(row.read_bandwidth)});
  }
  std::string out;
  for (const std::string& line : wrap(sentence(scaling), terminal.columns)) out += line + "\n";
  return out + "\n" + table.render(terminal);
}

void write_scaling(JsonWriter& json, const Scaling& scaling) {
  json.field("scaling_kind", kScalingKindNames[static_cast<size_t>(scaling.kind)]);
  json.field("scaling_per", kPerNames[static_cast<size_t>(scaling.per)]);
  json.field("scaling_against", scaling.against_hosts ? "hosts" : "ranks");
  json.objects("scaling", scaling.rows, [&](const ScalingRow& row) {
    json.field("name", row.name);
    json.field("hosts", row.hosts);
    json.field("ranks", row.ranks);
    json.field("wall_ns", row.wall_ns);
    json.field("unit_ns", row.unit_ns);
    json.field("epoch_ns", row.epoch_ns);
    json.field("step_ns", row.step_ns);
    json.field("gigabyte_ns", row.gigabyte_ns);
    json.field("speed_up", row.speed_up);
    json.field("efficiency", row.efficiency);
    json.field("io_share", row.io_share);
    json.field("io_exposed_share", row.io_exposed_share);
    json.field("wait_share", row.wait_share);
    json.field("read_bandwidth", row.read_bandwidth);
  });
}

}  // namespace millrace::report
