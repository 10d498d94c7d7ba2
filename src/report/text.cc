#include "report/text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::report {
namespace {

using analyze::FileKind;
using analyze::FunctionStats;
using analyze::Layer;
using analyze::Profile;
using analyze::TimeSplit;
using std::chrono::nanoseconds;

constexpr size_t kFunctionRows = 12;
constexpr size_t kBarColumns = 20;

std::string duration(uint64_t ns) {
  return format_duration(nanoseconds(static_cast<int64_t>(std::min<uint64_t>(ns, INT64_MAX))));
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void add_wrapped(std::string& out, const std::string& text, const Terminal& terminal) {
  for (const std::string& line : wrap(printable(text), terminal.columns)) out += line + "\n";
}

std::string opening(const Profile& profile, const Terminal& terminal) {
  const analyze::Job& job = profile.job;
  std::string out;
  if (!job.command.empty()) {
    out += styled(shorten(printable(job.command), terminal.columns), Style::kBold, terminal.color);
    out += "\n";
  }
  std::string facts = fmt::format(
      "{}{}{} from {}; {}, {}, {}, {}, {}", duration(job.wall_ns),
      job.framework.empty() ? "," : ", ", job.framework, utc_text(job.begin_wall_ns),
      counted(job.hosts.size(), "host", "hosts"), counted(job.ranks, "rank", "ranks"),
      counted(job.processes, "process", "processes"), counted(job.threads, "thread", "threads"),
      counted(job.events, "event", "events"));
  if (job.lost_events > 0) facts += fmt::format(" ({} lost)", format_exact(job.lost_events));
  add_wrapped(out, facts, terminal);
  return out;
}

// From files that the job wrote itself: its results and checkpoints, or a dataset that it made.
uint64_t bytes_read_back(const Profile& profile) {
  uint64_t bytes = 0;
  for (const analyze::GroupStats& kind : profile.kinds) {
    const bool is_written =
        kind.name == name_of(FileKind::kOutput) || kind.name == name_of(FileKind::kCheckpoint);
    if (is_written && kind.io.bytes_written > 0) bytes += kind.io.bytes_read;
  }
  return bytes;
}

// "50.0 % of 4 KiB". If no size is common, says so.
std::string sizes_of_reads(const analyze::AccessPattern& reads) {
  constexpr double kCommonMin = 0.1;
  if (reads.common_sizes.empty()) return "";
  const analyze::CommonValue& common = reads.common_sizes.front();
  const double part = share(common.count, reads.counts.count);
  if (part < kCommonMin) return ", of many sizes";
  return fmt::format(", {} of {}", format_percent(part), format_bytes(common.value));
}

std::string data_lines(const Profile& profile, const Terminal& terminal) {
  const analyze::Job& job = profile.job;
  std::string out;
  std::string data =
      fmt::format("data     {} of {}, read {}", counted(job.dataset_files, "file", "files"),
                  format_bytes(job.dataset_bytes), format_bytes(job.dataset_bytes_read));
  if (job.amplification > 0) {
    data += fmt::format(" ({:.2f} times{})", job.amplification, job.epochs > 0 ? " per epoch" : "");
  }
  data += fmt::format("; written {}", format_bytes(job.bytes_written));
  if (const uint64_t again = bytes_read_back(profile); again > 0) {
    data += fmt::format(", and read back {}", format_bytes(again));
  }
  add_wrapped(out, data, terminal);
  const analyze::AccessCounts& reads = profile.data_reads.counts;
  if (reads.count == 0) return out;
  std::string access = "access   " + counted(reads.count, "read", "reads");
  access += sizes_of_reads(profile.data_reads);
  access += fmt::format(", {} under 64 KiB", format_percent(share(reads.small, reads.count)));
  if (reads.transitions > 0) {
    access += fmt::format("; within files {} consecutive",
                          format_percent(share(reads.consecutive, reads.transitions)));
  }
  if (profile.data.order != analyze::ReadOrder::kUnknown) {
    access += fmt::format("; order {}",
                          analyze::kReadOrderNames[static_cast<size_t>(profile.data.order)]);
  }
  add_wrapped(out, access, terminal);
  return out;
}

void add_share(Table& table, const std::string& name, uint64_t part, const TimeSplit& split,
               const std::string& note, const Terminal& terminal) {
  const double of_wall = share(part, split.wall_ns);
  table.add_row({"  " + name, duration(part), format_percent(of_wall),
                 bar(of_wall, kBarColumns, terminal.utf8), note});
}

// "stopped 2.3 s for stat, readdir": calls of the training loop outside of loading and compute.
std::string stopped_for(const Profile& profile) {
  uint64_t stall_ns = 0;
  std::vector<std::string> names;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase != "in training" || stall.name.empty()) continue;
    stall_ns += stall.stall_ns;
    const bool is_named = std::find(names.begin(), names.end(), stall.name) != names.end();
    if (!is_named && names.size() < 3) names.push_back(stall.name);
  }
  stall_ns /= std::max<uint64_t>(profile.job.ranks, 1);
  if (share(stall_ns, profile.time.mean.wall_ns) < 0.01) return "";
  return fmt::format("stopped {} for {}", duration(stall_ns), join(names, ", "));
}

bool knows_device(const Profile& profile) {
  return profile.time.compute_basis != analyze::ComputeBasis::kRegions;
}

// Says whose clock measured compute, and what waiting means then.
std::string device_sentence(const Profile& profile) {
  const TimeSplit& split = profile.time.mean;
  std::string text = fmt::format(
      "Compute is the GPU's own time{}; the host launched for {}.",
      profile.time.compute_basis == analyze::ComputeBasis::kDevice ? "" : " where it is known",
      duration(split.launch_ns));
  if (profile.time.basis != analyze::WaitBasis::kRegions) return text;
  text += " Waiting is time in which the GPU was idle";
  if (split.wait_overlapped_ns > 0) {
    text += fmt::format("; the host waited for {} more while it computed",
                        duration(split.wait_overlapped_ns));
  }
  return text + ".";
}

std::string times(uint64_t count) {
  if (count <= 1) return "once";
  return count == 2 ? "twice" : format_exact(count) + " times";
}

// "The host waited for the GPU for 2.1 s: item() 500 times, 4.2 ms each." Empty if it did not.
std::string device_waits_sentence(const Profile& profile) {
  constexpr std::string_view kWait = "device_wait";
  constexpr size_t kNamedMax = 3;
  const uint64_t ranks = std::max<uint64_t>(profile.job.ranks, 1);
  uint64_t total_ns = 0;
  std::vector<std::string> parts;
  for (const FunctionStats& function : profile.functions) {  // the longest come first
    const std::string_view name = function.name;
    if (!name.starts_with(kWait) || function.count == 0) continue;
    const bool has_place = name.size() > kWait.size() && name[kWait.size()] == '.';
    if (!has_place && name != kWait) continue;
    total_ns += function.time_ns;
    if (parts.size() == kNamedMax) continue;
    parts.push_back(fmt::format(
        "{} {}, {} each", has_place ? printable(name.substr(kWait.size() + 1)) + "()" : "regions",
        times(function.count / ranks), duration(function.time_ns / function.count)));
  }
  if (parts.empty()) return "";
  return fmt::format(
      "The host waited for the GPU for {}: {}. After each wait the GPU has no work until the host "
      "launches more.",
      duration(total_ns / ranks), join(parts, "; "));
}

void add_sentence(std::string& out, const std::string& sentence, const Terminal& terminal) {
  if (sentence.empty()) return;
  for (const std::string& line : wrap(sentence, terminal.columns - 2)) out += "  " + line + "\n";
}

std::string time_table(const Profile& profile, const Terminal& terminal) {
  const TimeSplit& split = profile.time.mean;
  if (split.wall_ns == 0) return "";
  const auto right = Table::Align::kRight;
  Table table({{.title = ""},
               {.title = "", .align = right},
               {.title = "", .align = right},
               {.title = ""},
               {.title = "", .may_shrink = true}});
  const bool knows_training = split.training_ns > 0 && split.training_ns < split.wall_ns;
  if (knows_training) {
    add_share(table, "start-up", split.startup_ns, split, "", terminal);
    add_share(table, "training", split.training_ns, split, "", terminal);
  }
  if (split.compute_ns > 0) {
    add_share(table, "compute", split.compute_ns, split, "", terminal);
  }
  if (profile.time.basis == analyze::WaitBasis::kRegions) {
    add_share(table, "waiting for data", split.wait_ns, split,
              knows_training ? fmt::format("{} of training", format_percent(split.wait_share)) : "",
              terminal);
  }
  add_share(
      table, "I/O calls", split.io_ns, split,
      split.compute_ns > 0
          ? fmt::format("{} overlapped", format_percent(share(split.io_overlapped_ns, split.io_ns)))
          : "",
      terminal);
  if (split.compute_ns > 0) {
    add_share(table, "I/O not overlapped", split.io_exposed_ns, split, "", terminal);
  }
  const std::pair<std::string, uint64_t> rest[] = {
      {"fetching", split.fetch_ns},         {"decoding", split.decode_ns},
      {"transforms", split.transform_ns},   {"copies to the GPU", split.copy_ns},
      {"checkpoints", split.checkpoint_ns}, {"communication", split.communicate_ns}};
  for (const auto& [name, part] : rest) {
    if (part > 0) add_share(table, name, part, split, "", terminal);
  }
  add_share(table, "none of these", split.idle_ns, split, stopped_for(profile), terminal);
  std::string out = fmt::format(
      "\n{}\n",
      styled(profile.job.ranks > 1 ? fmt::format("Time of a rank, mean of {}", profile.job.ranks)
                                   : "Time",
             Style::kBold, terminal.color));
  out += table.render(terminal);
  if (knows_device(profile)) add_sentence(out, device_sentence(profile), terminal);
  add_sentence(out, device_waits_sentence(profile), terminal);
  return out;
}

std::string sizes_of(const FunctionStats& function) {
  return function.size_bytes.count == 0 ? "" : format_bytes(function.size_bytes.median);
}

std::string function_table(const Profile& profile, const Terminal& terminal) {
  if (profile.functions.empty()) return "";
  const auto right = Table::Align::kRight;
  Table table({{.title = "function", .may_shrink = true},
               {.title = "calls", .align = right},
               {.title = profile.job.ranks > 1 ? "time, all ranks" : "time", .align = right},
               {.title = "bytes", .align = right},
               {.title = "size", .align = right},
               {.title = "median", .align = right},
               {.title = "p99", .align = right}});
  size_t left = 0;
  for (const analyze::LayerStats& layer : profile.layers) {
    std::vector<const FunctionStats*> functions;
    for (const FunctionStats& function : profile.functions) {
      if (function.layer == layer.layer) functions.push_back(&function);
    }
    table.add_row(
        {{std::string(analyze::kLayerNames[static_cast<size_t>(layer.layer)]), Style::kBold},
         format_count(static_cast<double>(layer.count)),
         // Regions of a layer lie within each other, so their sum would exceed the job.
         duration(layer.busy_ns > 0 ? layer.busy_ns : layer.time_ns),
         layer.bytes_read + layer.bytes_written == 0
             ? ""
             : format_bytes(layer.bytes_read + layer.bytes_written),
         "",
         "",
         ""});
    const size_t room = std::max<size_t>(2, kFunctionRows / profile.layers.size());
    for (size_t i = 0; i < functions.size(); ++i) {
      if (i >= room) {
        ++left;
        continue;
      }
      const FunctionStats& function = *functions[i];
      table.add_row({"  " + printable(function.name),
                     format_count(static_cast<double>(function.count)), duration(function.time_ns),
                     function.bytes == 0 ? "" : format_bytes(function.bytes), sizes_of(function),
                     duration(function.latency_ns.median), duration(function.latency_ns.p99)});
    }
  }
  std::string out = "\n" + table.render(terminal);
  if (left > 0) out += fmt::format("and {} more: --by function\n", format_exact(left));
  return out;
}

}  // namespace

std::string report_text(const Profile& profile, const advise::Verdict& verdict,
                        const Terminal& terminal) {
  std::string out = opening(profile, terminal);
  out += data_lines(profile, terminal);
  out += "\n" + styled("Is data the bottleneck?", Style::kBold, terminal.color) + "\n";
  for (const std::string& line : wrap(printable(verdict.sentence), terminal.columns - 2)) {
    out += "  " + line + "\n";
  }
  out += time_table(profile, terminal);
  out += function_table(profile, terminal);
  return out;
}

}  // namespace millrace::report
