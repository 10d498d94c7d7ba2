// The comparison of a replay with its trace, as text and as JSON.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "interop/describe.h"
#include "replay/replay.h"

namespace millrace::replay {
namespace {

using std::chrono::nanoseconds;

std::string time_text(uint64_t time_ns) {
  return format_duration(nanoseconds(static_cast<int64_t>(time_ns)));
}

double rate_of(uint64_t bytes, uint64_t time_ns) {
  return time_ns == 0 ? 0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(time_ns);
}

std::string rate_text(const Measured& measured) {
  const bool has_rate = measured.bytes > 0 && measured.time_ns > 0;  // mappings take no time
  return !has_rate ? "" : format_bandwidth(rate_of(measured.bytes, measured.time_ns));
}

std::string bytes_text(uint64_t bytes) { return bytes == 0 ? "" : format_bytes(bytes); }

// Functions by the time that they took here, longest first.
std::vector<std::pair<wire::Call, const FunctionResult*>> sorted(const RunResult& result) {
  std::vector<std::pair<wire::Call, const FunctionResult*>> functions;
  for (const auto& [call, function] : result.functions) functions.emplace_back(call, &function);
  std::stable_sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) {
    return a.second->replayed.time_ns > b.second->replayed.time_ns;
  });
  return functions;
}

struct Totals {
  uint64_t failed_in_both = 0;
  uint64_t succeeded_here = 0;
  uint64_t short_count = 0;
  uint64_t bytes = 0;
};
Totals totals_of(const RunResult& result) {
  Totals totals;
  for (const auto& [call, function] : result.functions) {
    totals.failed_in_both += function.failed_in_both;
    totals.succeeded_here += function.succeeded_here;
    totals.short_count += function.short_count;
    totals.bytes += function.replayed.bytes;
  }
  return totals;
}

// ---- text -----------------------------------------------------------------------------------

std::string heading(const Replayed& replayed) {
  const RunResult& result = replayed.result;
  const Plan& plan = replayed.plan;
  const std::string part =
      result.is_interrupted
          ? fmt::format("{} of {}", format_exact(result.calls), format_exact(plan.steps.size()))
          : format_exact(result.calls);
  std::string out = fmt::format("{} calls of {} ({}) onto {}\n", part, printable(replayed.title),
                                printable(plan.root), printable(replayed.prepared.folder->path()));
  out += fmt::format("{} in {}, {}; recorded in {}; {}\n", format_bytes(totals_of(result).bytes),
                     time_text(result.elapsed_ns), timing_name(replayed.timing),
                     time_text(plan.end_ns - plan.begin_ns),
                     counted(plan.threads.size(), "thread", "threads"));
  if (result.is_interrupted) out += "interrupted: the numbers are those of the calls made\n";
  return out;
}

std::string function_table(const RunResult& result, const Terminal& terminal) {
  using Align = Table::Align;
  Table table({{"function", Align::kLeft},
               {"calls", Align::kRight},
               {"failed", Align::kRight},
               {"bytes", Align::kRight},
               {"time", Align::kRight},
               {"(was)", Align::kRight},
               {"median", Align::kRight},
               {"(was)", Align::kRight},
               {"p99", Align::kRight},
               {"(was)", Align::kRight},
               {"rate", Align::kRight},
               {"(was)", Align::kRight}});
  for (const auto& [call, function] : sorted(result)) {
    const auto& here = function->replayed;
    const auto& there = function->recorded;
    const uint64_t failed = function->failed_here;
    table.add_row({interop::call_name(call),
                   format_exact(function->calls),
                   {failed == 0 ? "" : format_exact(failed), Style::kBad},
                   bytes_text(here.bytes),
                   time_text(here.time_ns),
                   time_text(there.time_ns),
                   time_text(here.latency_ns.quantile(0.5)),
                   time_text(there.latency_ns.quantile(0.5)),
                   time_text(here.latency_ns.quantile(0.99)),
                   time_text(there.latency_ns.quantile(0.99)),
                   rate_text(here),
                   rate_text(there)});
  }
  return table.render(terminal);
}

std::string skipped_text(const Skipped& skipped) {
  std::string out;
  const auto line = [&](uint64_t count, std::string_view what) {
    if (count > 0) out += fmt::format("  {:>10}  {}\n", format_exact(count), what);
  };
  line(skipped.filtered, "left out by the options");
  line(skipped.outside, "on files that are not below --root");
  line(skipped.not_storage, "on pipes, sockets and files in /proc, /sys and /dev");
  line(skipped.unknown_file, "on descriptors whose file is not in the trace");
  line(skipped.covered,
       "whose I/O is in other calls: dup, mmap, fseek, MPI-IO and HDF5 above POSIX");
  line(skipped.unmatched, "that close a file which was not open");
  line(skipped.failed, "that failed when they were recorded, and change something if they succeed");
  for (const auto& [name, count] : skipped.cannot) line(count, name + ": cannot be replayed");
  return out.empty() ? out : "not replayed:\n" + out;
}

std::string preparation_text(const Replayed& replayed) {
  const Prepared& prepared = replayed.prepared;
  std::string out;
  if (prepared.file_count > 0) {
    out += fmt::format("created {}, {}", counted(prepared.file_count, "file", "files"),
                       format_bytes(prepared.size_bytes));
    if (!replayed.filled && prepared.size_bytes > 0) {
      out += ", sparse: reads do not reach the device; use --fill to measure it";
    }
    out += replayed.cleaned ? "; removed again\n" : "\n";
  }
  if (prepared.existing_count > 0) {
    out += fmt::format("used {} as they are", counted(prepared.existing_count, "file", "files"));
    if (prepared.too_small_count > 0) {
      out += fmt::format("; {} shorter than what the trace reads",
                         counted(prepared.too_small_count, "is", "are"));
    }
    out += '\n';
  }
  return out;
}

std::string outcome_text(const RunResult& result) {
  std::string out;
  const Totals totals = totals_of(result);
  if (totals.failed_in_both > 0) {
    out += fmt::format("{} failed, as in the trace\n",
                       counted(totals.failed_in_both, "call", "calls"));
  }
  if (totals.succeeded_here > 0) {
    out += fmt::format("{} succeeded that had failed in the trace\n",
                       counted(totals.succeeded_here, "call", "calls"));
  }
  if (totals.short_count > 0) {
    out += fmt::format("{} moved fewer bytes than in the trace\n",
                       counted(totals.short_count, "call", "calls"));
  }
  const uint64_t failed = result.failed_here();
  if (failed == 0) return out;
  out +=
      fmt::format("{} FAILED that had succeeded in the trace:\n", counted(failed, "call", "calls"));
  for (const std::string& failure : result.failures) out += fmt::format("  {}\n", failure);
  if (failed > result.failures.size()) out += "  ...\n";
  return out;
}

std::string lateness_text(const Replayed& replayed) {
  const QuantileSketch& lateness = replayed.result.lateness_ns;
  if (replayed.timing != Timing::kAsRecorded || lateness.count() == 0) return "";
  return fmt::format("calls began late by {} (median), {} (p99), {} (most)\n",
                     time_text(lateness.quantile(0.5)), time_text(lateness.quantile(0.99)),
                     time_text(lateness.max()));
}

// ---- JSON -----------------------------------------------------------------------------------

void write_quantiles(JsonWriter& json, std::string_view key, const QuantileSketch& sketch) {
  json.key(key);
  json.begin_object(JsonLayout::kOneLine);
  json.field("min", sketch.min());
  json.field("p50", sketch.quantile(0.5));
  json.field("p95", sketch.quantile(0.95));
  json.field("p99", sketch.quantile(0.99));
  json.field("max", sketch.max());
  json.end_object();
}

void write_measured(JsonWriter& json, std::string_view key, const Measured& measured) {
  json.key(key);
  json.begin_object();
  json.field("bytes", measured.bytes);
  json.field("time_ns", measured.time_ns);
  json.field("bytes_per_second", rate_of(measured.bytes, measured.time_ns));
  write_quantiles(json, "latency_ns", measured.latency_ns);
  json.end_object();
}

void write_functions(JsonWriter& json, const RunResult& result) {
  json.key("functions");
  json.begin_list();
  for (const auto& [call, function] : sorted(result)) {
    json.begin_object();
    json.field("function", interop::call_name(call));
    json.field("level", interop::level_name(call));
    json.field("calls", function->calls);
    json.field("failed_only_here", function->failed_here);
    json.field("failed_in_both", function->failed_in_both);
    json.field("succeeded_only_here", function->succeeded_here);
    json.field("short", function->short_count);
    write_measured(json, "recorded", function->recorded);
    write_measured(json, "replayed", function->replayed);
    json.end_object();
  }
  json.end_list();
}

void write_skipped(JsonWriter& json, const Skipped& skipped) {
  json.key("not_replayed");
  json.begin_object();
  json.field("filtered", skipped.filtered);
  json.field("outside_root", skipped.outside);
  json.field("not_storage", skipped.not_storage);
  json.field("unknown_file", skipped.unknown_file);
  json.field("covered_by_other_calls", skipped.covered);
  json.field("unmatched_close", skipped.unmatched);
  json.field("failed_change", skipped.failed);
  json.key("cannot");
  json.begin_object();
  for (const auto& [name, count] : skipped.cannot) json.field(name, count);
  json.end_object();
  json.end_object();
}

void write_prepared(JsonWriter& json, const Replayed& replayed) {
  const Prepared& prepared = replayed.prepared;
  json.key("prepared");
  json.begin_object();
  json.field("files", prepared.file_count);
  json.field("bytes", prepared.size_bytes);
  json.field("filled", replayed.filled);
  json.field("existing_files", prepared.existing_count);
  json.field("existing_too_small", prepared.too_small_count);
  json.field("cleaned", replayed.cleaned);
  json.end_object();
}

}  // namespace

std::string_view timing_name(Timing timing) {
  return timing == Timing::kFast ? "fast" : "as-recorded";
}

std::string report_text(const Replayed& replayed, const Terminal& terminal) {
  std::string out = heading(replayed);
  if (replayed.result.calls > 0) out += '\n' + function_table(replayed.result, terminal) + '\n';
  out += lateness_text(replayed);
  out += outcome_text(replayed.result);
  out += preparation_text(replayed);
  out += skipped_text(replayed.plan.skipped);
  return out;
}

std::string report_json(const Replayed& replayed) {
  const RunResult& result = replayed.result;
  JsonWriter json;
  json.begin_object();
  json.field("trace", replayed.title);
  json.field("root", replayed.plan.root);
  json.field("onto", replayed.prepared.folder->path());
  json.field("timing", timing_name(replayed.timing));
  json.field("interrupted", result.is_interrupted);
  json.field("threads", replayed.plan.threads.size());
  json.field("planned_calls", replayed.plan.steps.size());
  json.field("calls", result.calls);
  json.field("failed_only_here", result.failed_here());
  json.field("recorded_ns", replayed.plan.end_ns - replayed.plan.begin_ns);
  json.field("elapsed_ns", result.elapsed_ns);
  if (replayed.timing == Timing::kAsRecorded) {
    write_quantiles(json, "lateness_ns", result.lateness_ns);
  }
  write_functions(json, result);
  json.key("failures");
  json.begin_list();
  for (const std::string& failure : result.failures) json.value(failure);
  json.end_list();
  write_prepared(json, replayed);
  write_skipped(json, replayed.plan.skipped);
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::replay
