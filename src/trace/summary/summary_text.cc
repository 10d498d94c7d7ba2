
#include <algorithm>

#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "trace/summary/summary.h"
#include "trace/summary/untraced.h"

namespace millrace::trace {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kProcessRows = 20;
constexpr size_t kProblemLines = 20;

std::string duration(uint64_t ns) { return format_duration(nanoseconds(ns)); }

std::string bytes_or_none(uint64_t bytes) { return bytes == 0 ? "" : format_bytes(bytes); }

std::string heading(std::string_view text, const Terminal& terminal) {
  return "\n" + styled(text, Style::kBold, terminal.color) + "\n";
}

// Appends an entry of a list, wrapped with an indent.
void add_entry(std::string& out, const std::string& text, const Terminal& terminal) {
  const char* indent = "  ";
  for (const std::string& line : wrap(printable(text), terminal.columns - 4)) {
    out += indent + line + "\n";
    indent = "    ";
  }
}

std::string opening(const Trace& trace, const Summary& summary) {
  std::string out = counted(summary.hosts.size(), "host", "hosts");
  out += ", " + counted(trace.sessions().size(), "session", "sessions");
  if (!summary.ranks.empty()) out += ", " + counted(summary.ranks.size(), "rank", "ranks");
  out += ", " + counted(trace.processes().size(), "process", "processes");
  out += ", " + counted(trace.threads().size(), "thread", "threads") + "\n";
  out +=
      counted(summary.events, "event", "events") + " of " + counted(summary.files, "file", "files");
  if (summary.events > 0) {
    const auto begin = static_cast<int64_t>(summary.begin_ns);
    out += fmt::format(", from {}, for {}", utc_text(trace.origin_wall_ns() + begin),
                       duration(summary.end_ns - summary.begin_ns));
  }
  return out + "\n";
}

std::string calls_text(const Summary& summary, const Terminal& terminal) {
  std::map<wire::Level, CallTotals> levels;
  std::vector<std::pair<wire::Call, CallTotals>> calls(summary.calls.begin(), summary.calls.end());
  for (const auto& [call, totals] : calls) {
    CallTotals& level = levels[wire::level_of(call)];
    level.events += totals.events;
    level.errors += totals.errors;
    level.duration_ns += totals.duration_ns;
    level.bytes += totals.bytes;
  }
  std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.duration_ns, a.first) < std::pair(a.second.duration_ns, b.first);
  });
  const auto right = Table::Align::kRight;
  Table table({{.title = "level"},
               {.title = "call"},
               {.title = "events", .align = right},
               {.title = "errors", .align = right},
               {.title = "time", .align = right},
               {.title = "bytes", .align = right}});
  const auto row = [&](const std::string& level, const std::string& call, const CallTotals& totals,
                       Style style) {
    table.add_row({{level, style},
                   call,
                   format_exact(totals.events),
                   totals.errors == 0 ? "" : format_exact(totals.errors),
                   duration(totals.duration_ns),
                   bytes_or_none(totals.bytes)});
  };
  for (const auto& [level, totals] : levels) {
    row(level_name(level), "", totals, Style::kBold);
    for (const auto& [call, of_call] : calls) {
      if (wire::level_of(call) == level) row("", call_name(call), of_call, Style::kPlain);
    }
  }
  return "\n" + table.render(terminal);
}

std::string end_of(const Process& process) {
  return process.exited ? fmt::format("exit {}", process.exit_code) : "-";
}

std::string processes_text(const Trace& trace, const Summary& summary, const Terminal& terminal) {
  std::vector<size_t> order(trace.processes().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(summary.process_events[b], a) < std::pair(summary.process_events[a], b);
  });
  const auto right = Table::Align::kRight;
  Table table({{.title = "process", .align = right},
               {.title = "rank", .align = right},
               {.title = "events", .align = right},
               {.title = "ended"},
               {.title = "host"},
               {.title = "command", .may_shrink = true}});
  for (size_t i = 0; i < std::min(order.size(), kProcessRows); ++i) {
    const Process& process = trace.processes()[order[i]];
    std::string command = printable(trace.name(process.command_line));
    if (process.origin == wire::ProcessOrigin::kFork) command += " (fork)";
    table.add_row({std::to_string(process.pid),
                   process.rank < 0 ? "" : std::to_string(process.rank),
                   format_exact(summary.process_events[order[i]]), end_of(process),
                   printable(trace.sessions()[process.session].host), command});
  }
  std::string out = "\n" + table.render(terminal);
  if (order.size() > kProcessRows) {
    out += fmt::format("and {} more; --json lists all\n", order.size() - kProcessRows);
  }
  return out;
}

std::string losses_text(const Trace& trace, const Terminal& terminal) {
  if (trace.losses().empty()) return "";
  std::string out = heading("lost", terminal);
  for (const LostEvents& loss : trace.losses()) {
    std::string whose = "processes that could not create their file";
    if (loss.process != kNoProcess) {
      const Process& process = trace.processes()[static_cast<size_t>(loss.process)];
      whose = fmt::format("process {}", process.pid);
    }
    const std::string why =
        loss.error == 0 ? "for an unknown reason" : describe_os_error(loss.error);
    if (loss.events > 0) {
      add_entry(out,
                fmt::format("lost {} of {} from {} on: {}", counted(loss.events, "event", "events"),
                            whose, duration(loss.first_ns), why),
                terminal);
    }
    if (loss.names > 0) {
      add_entry(out,
                fmt::format("lost {} of {}: their events have no file: {}",
                            counted(loss.names, "file name", "file names"), whose, why),
                terminal);
    }
  }
  return out;
}

std::string not_itemised_text(const Trace& trace, const Summary& summary,
                              const Terminal& terminal) {
  const NotItemised& rest = summary.not_itemised;
  std::string out = heading("not itemised", terminal);
  if (rest.mmap_calls > 0 || rest.mappings_ended > 0) {
    add_entry(
        out,
        fmt::format("mapped files: {}; of {} in {} that ended, {} were in memory: an upper bound "
                    "on what was read through them",
                    counted(rest.mmap_calls, "mmap call", "mmap calls"),
                    format_bytes(rest.mapped_bytes),
                    counted(rest.mappings_ended, "mapping", "mappings"),
                    format_bytes(rest.mapped_present_bytes)),
        terminal);
  }
  if (rest.io_uring_setups > 0) {
    add_entry(out,
              fmt::format("io_uring: {} set up, entered {}; their reads and writes are unknown",
                          counted(rest.io_uring_setups, "ring", "rings"),
                          counted(rest.io_uring_enters, "time", "times")),
              terminal);
  }
  for (const UntracedProgram& program : rest.untraced) {
    add_entry(out, untraced_text(program), terminal);
  }
  for (const ProcessIndex process : rest.sandboxed) {
    add_entry(
        out,
        fmt::format("process {} stopped recording: it entered a seccomp sandbox, where a system "
                    "call of the recorder could kill it; nothing after that is in the trace",
                    trace.processes()[static_cast<size_t>(process)].pid),
        terminal);
  }
  if (rest.major_faults + rest.minor_faults > 0) {
    add_entry(
        out,
        fmt::format("page faults of ended processes: {} that waited for a device, {} that did "
                    "not",
                    format_exact(rest.major_faults), format_exact(rest.minor_faults)),
        terminal);
  }
  for (const Session& session : trace.sessions()) {
    if (session.alignment.empty()) continue;
    const std::string_view unknown =
        session.alignment == "wall clock" ? ", plus the error of the hosts' time service" : "";
    add_entry(out,
              fmt::format("clock of {}: {}; off by at most {}{}", session.host, session.alignment,
                          duration(session.uncertainty_ns), unknown),
              terminal);
  }
  return out;
}

std::string problems_text(const Summary& summary, const Terminal& terminal) {
  if (summary.problems.empty()) return "";
  std::string out = heading("problems", terminal);
  for (size_t i = 0; i < std::min(summary.problems.size(), kProblemLines); ++i) {
    add_entry(out, summary.problems[i], terminal);
  }
  if (summary.problems.size() > kProblemLines) {
    out +=
        fmt::format("  and {} more; --json lists all\n", summary.problems.size() - kProblemLines);
  }
  return out;
}

}  // namespace

std::string summary_text(const Trace& trace, const Summary& summary, const Terminal& terminal) {
  std::string out = opening(trace, summary);
  if (!summary.calls.empty()) out += calls_text(summary, terminal);
  if (!trace.processes().empty()) out += processes_text(trace, summary, terminal);
  out += losses_text(trace, terminal);
  out += not_itemised_text(trace, summary, terminal);
  return out + problems_text(summary, terminal);
}

}  // namespace millrace::trace
