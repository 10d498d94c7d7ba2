#include "doctor/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text/json_writer.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::doctor {
namespace {

constexpr size_t kStateColumns = 9;

// "  ok       io_uring       a ring was set up ..." and, unless it is ready, what to do.
std::string finding_text(const Finding& finding, size_t name_columns, const Terminal& terminal) {
  const size_t indent = 2 + kStateColumns + name_columns + 2;
  const size_t text_columns = std::max<size_t>(terminal.columns, indent + 20) - indent;
  const std::string state(state_name(finding.state));
  std::string out = "  " + styled(state, state_style(finding.state), terminal.color);
  out.append(kStateColumns - state.size(), ' ');
  out += finding.name;
  out.append(name_columns + 2 - display_width(finding.name), ' ');
  const auto add = [&](std::string_view text, bool first) {
    for (const std::string& line : wrap(text, text_columns)) {
      if (!first) out.append(indent, ' ');
      out += line + "\n";
      first = false;
    }
  };
  add(finding.fact, true);
  if (!finding.without.empty()) add("so: " + finding.without, false);
  if (!finding.fix.empty()) add("fix: " + finding.fix, false);
  return out;
}

std::string findings_text(const std::vector<Finding>& findings, const Terminal& terminal) {
  size_t name_columns = 0;
  for (const Finding& finding : findings) {
    name_columns = std::max(name_columns, display_width(finding.name));
  }
  std::string out;
  for (const Finding& finding : findings) out += finding_text(finding, name_columns, terminal);
  return out;
}

// Virtual disks report that they rotate. A device that answers within a millisecond does not.
std::string_view device_kind(const DirectoryFindings& directory) {
  if (!directory.rotating.has_value()) return "";
  if (!*directory.rotating) return " (solid)";
  const bool answers_fast = directory.speed && directory.speed->device_random_reads &&
                            directory.speed->device_random_reads->latency_us_p50 < 1000;
  return answers_fast ? "" : " (rotating)";
}

std::string directory_heading(const DirectoryFindings& directory, const Terminal& terminal) {
  std::string out = "\n" + styled(printable(directory.path.native()), Style::kBold, terminal.color);
  if (!directory.file_system.empty()) {
    out += fmt::format("  {}{} on {}", directory.file_system, device_kind(directory),
                       printable(directory.source));
  }
  if (directory.total_bytes > 0) {
    out += fmt::format("  {} free of {}", format_bytes(directory.free_bytes, ByteUnits::kDecimal),
                       format_bytes(directory.total_bytes, ByteUnits::kDecimal));
  }
  return out + "\n";
}

std::string speed_text(const DirectorySpeed& speed, const Terminal& terminal) {
  Table table({{.title = ""},
               {.title = "", .align = Table::Align::kRight},
               {.title = "", .may_shrink = true}});
  const double fastest = std::max({speed.write_bytes_per_second, speed.cached_read_bytes_per_second,
                                   speed.device_read_bytes_per_second.value_or(0)});
  const auto bandwidth = [&](std::string name, double bytes_per_second) {
    table.add_row({"  " + std::move(name), format_bandwidth(bytes_per_second),
                   bar(bytes_per_second / fastest, 24, terminal.utf8)});
  };
  bandwidth("write, made durable", speed.write_bytes_per_second);
  bandwidth("read, page cache", speed.cached_read_bytes_per_second);
  if (speed.device_read_bytes_per_second) {
    bandwidth("read, device", *speed.device_read_bytes_per_second);
  } else {
    table.add_row({"  read, device", "-", speed.device_method});
  }
  if (const auto& random = speed.device_random_reads) {
    table.add_row({"  read 4 KiB, device", format_count(random->per_second) + "/s",
                   fmt::format("{} at a time; alone {:.0f} us median, {:.0f} us p99",
                               random->threads, random->latency_us_p50, random->latency_us_p99)});
  }
  table.add_row({"  create 16 KiB file", format_count(speed.small_creates_per_second) + "/s", ""});
  table.add_row({"  stat, warm", format_count(speed.small_stats_per_second) + "/s", ""});
  table.add_row({"  open+read+close, warm", format_count(speed.small_reads_per_second) + "/s",
                 "1 thread, 16 KiB"});
  std::string out = table.render(terminal);
  out += fmt::format("  measured on a file of {}", format_bytes(speed.probe_size_bytes));
  if (speed.device_read_bytes_per_second) out += fmt::format("; device: {}", speed.device_method);
  return out + "\n";
}

std::string conclusion(const Diagnosis& diagnosis) {
  size_t counts[4] = {};
  for (const Finding& finding : diagnosis.machine) ++counts[static_cast<size_t>(finding.state)];
  for (const DirectoryFindings& directory : diagnosis.directories) {
    for (const Finding& finding : directory.findings) ++counts[static_cast<size_t>(finding.state)];
  }
  return fmt::format("\n{} ok, {} limited, {} missing, {} failed\n", counts[0], counts[1],
                     counts[2], counts[3]);
}

void write_findings(JsonWriter& json, const std::vector<Finding>& findings) {
  json.begin_list();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.field("name", finding.name);
    json.field("state", state_name(finding.state));
    json.field("fact", finding.fact);
    json.field("without", finding.without);
    json.field("fix", finding.fix);
    json.key("figures");
    json.begin_object();
    for (const auto& [name, value] : finding.figures) json.field(name, value);
    json.end_object();
    json.end_object();
  }
  json.end_list();
}

void write_speed(JsonWriter& json, const DirectorySpeed& speed) {
  json.begin_object();
  json.field("probe_size_bytes", speed.probe_size_bytes);
  json.field("write_bytes_per_second", speed.write_bytes_per_second);
  json.field("cached_read_bytes_per_second", speed.cached_read_bytes_per_second);
  if (speed.device_read_bytes_per_second) {
    json.field("device_read_bytes_per_second", *speed.device_read_bytes_per_second);
  }
  json.field("device_method", speed.device_method);
  if (const auto& random = speed.device_random_reads) {
    json.field("device_random_read_latency_us_p50", random->latency_us_p50);
    json.field("device_random_read_latency_us_p99", random->latency_us_p99);
    json.field("device_random_reads_per_second", random->per_second);
    json.field("device_random_read_threads", random->threads);
  }
  json.field("small_creates_per_second", speed.small_creates_per_second);
  json.field("small_stats_per_second", speed.small_stats_per_second);
  json.field("small_reads_per_second", speed.small_reads_per_second);
  json.end_object();
}

void write_directory(JsonWriter& json, const DirectoryFindings& directory) {
  json.begin_object();
  json.field("path", directory.path.native());
  json.field("usable", directory.usable);
  json.field("file_system", directory.file_system);
  json.field("source", directory.source);
  if (directory.rotating) json.field("rotating", *directory.rotating);
  json.field("free_bytes", directory.free_bytes);
  json.field("total_bytes", directory.total_bytes);
  json.field("free_inodes", directory.free_inodes);
  json.field("total_inodes", directory.total_inodes);
  json.key("findings");
  write_findings(json, directory.findings);
  if (directory.speed) {
    json.key("speed");
    write_speed(json, *directory.speed);
  }
  json.end_object();
}

}  // namespace

std::string report_text(const Diagnosis& diagnosis, const Terminal& terminal) {
  std::string out = findings_text(diagnosis.machine, terminal);
  for (const DirectoryFindings& directory : diagnosis.directories) {
    out += directory_heading(directory, terminal);
    out += findings_text(directory.findings, terminal);
    if (directory.speed) out += speed_text(*directory.speed, terminal);
  }
  return out + conclusion(diagnosis);
}

std::string report_json(const Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "millrace-doctor");
  json.field("version", 1);
  json.field("ok", !has_failure(diagnosis));
  json.key("machine");
  write_findings(json, diagnosis.machine);
  json.key("directories");
  json.begin_list();
  for (const DirectoryFindings& directory : diagnosis.directories) write_directory(json, directory);
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::doctor
