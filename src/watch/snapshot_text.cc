#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/text/phrases.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "watch/snapshot.h"

namespace millrace::watch {
namespace {

using Align = Table::Align;

double per_second(uint64_t count, uint64_t window_ns) {
  return window_ns == 0 ? 0 : static_cast<double>(count) * 1e9 / static_cast<double>(window_ns);
}

std::string count_rate(uint64_t count, uint64_t window_ns) {
  return count == 0 ? "" : format_count(per_second(count, window_ns));
}

std::string byte_rate(uint64_t bytes, uint64_t window_ns) {
  return bytes == 0 ? "" : format_bandwidth(per_second(bytes, window_ns));
}

std::string duration(uint64_t duration_ns) {
  return format_duration(std::chrono::nanoseconds(duration_ns));
}

std::string ranks_text(const Snapshot& snapshot) {
  if (snapshot.ranks == 0) return "no ranks";
  if (snapshot.world_size > 0) {
    return fmt::format("{} of {}", format_exact(snapshot.ranks),
                       counted(static_cast<uint64_t>(snapshot.world_size), "rank", "ranks"));
  }
  return counted(snapshot.ranks, "rank", "ranks");
}

std::string lost_text(const Snapshot& snapshot, bool color) {
  if (snapshot.lost_events == 0 && snapshot.lost_processes == 0) return "no events lost";
  std::string text = fmt::format("{} lost", counted(snapshot.lost_events, "event", "events"));
  if (snapshot.lost_processes > 0) {
    text +=
        fmt::format(", {} not recorded", counted(snapshot.lost_processes, "process", "processes"));
  }
  return styled(text, Style::kBad, color);
}

std::string operations_table(const Snapshot& snapshot, const Terminal& terminal) {
  Table table({{"calls"},
               {"per second", Align::kRight},
               {"bandwidth", Align::kRight},
               {"mean", Align::kRight},
               {"longest", Align::kRight}});
  const OperationKinds& kinds = snapshot.window;
  const std::pair<const char*, const Operations*> rows[] = {{"reads", &kinds.reads},
                                                            {"writes", &kinds.writes},
                                                            {"opens", &kinds.opens},
                                                            {"metadata", &kinds.metadata},
                                                            {"others", &kinds.others}};
  for (const auto& [name, operations] : rows) {
    const bool any = operations->count > 0;
    table.add_row({name, any ? count_rate(operations->count, snapshot.window_ns) : "0",
                   byte_rate(operations->bytes, snapshot.window_ns),
                   any ? duration(operations->duration_ns / operations->count) : "",
                   any ? duration(operations->duration_max_ns) : ""});
  }
  return table.render(terminal);
}

std::string waiting_line(const Snapshot& snapshot, bool color) {
  const Style style = snapshot.waiting_share > 0.5 ? Style::kWarning : Style::kPlain;
  const std::string share = styled(format_percent(snapshot.waiting_share), style, color);
  switch (snapshot.waiting_by) {
    case WaitingBy::kRegions:
      return fmt::format("waiting for data {} of the time (regions batch_wait, fetch)\n", share);
    case WaitingBy::kIo:
      return fmt::format("in I/O {} of the time (any thread of the main process)\n", share);
    case WaitingBy::kNothing:
      break;
  }
  return "";
}

std::string number_or_nothing(bool known, uint64_t number) {
  return known ? std::to_string(number) : "";
}

std::string workers_table(const Snapshot& snapshot, const Terminal& terminal) {
  if (snapshot.workers.empty()) return "";
  const auto any = [&](auto is_so) {
    return std::any_of(snapshot.workers.begin(), snapshot.workers.end(), is_so);
  };
  const bool has_ranks = any([](const Worker& worker) { return worker.rank >= 0; });
  const bool by_regions =
      any([](const Worker& worker) { return worker.waiting_by == WaitingBy::kRegions; });
  const bool has_hosts = snapshot.hosts > 1;
  std::vector<Table::Column> columns = {{has_ranks ? "rank" : "process", Align::kRight},
                                        {"epoch", Align::kRight},
                                        {"step", Align::kRight},
                                        {"read", Align::kRight},
                                        {"written", Align::kRight},
                                        {"calls/s", Align::kRight},
                                        {by_regions ? "waits" : "in I/O", Align::kRight}};
  if (has_hosts) columns.push_back({"host", Align::kLeft, true});
  columns.push_back({"command", Align::kLeft, true});
  Table table(std::move(columns));
  for (const Worker& worker : snapshot.workers) {
    const std::string self = worker.rank >= 0 ? std::to_string(worker.rank)
                             : has_ranks      ? fmt::format("({})", worker.pid)
                                              : std::to_string(worker.pid);
    const bool has_share = !by_regions || worker.waiting_by == WaitingBy::kRegions;
    std::vector<Table::Cell> cells = {self,
                                      number_or_nothing(worker.has_epoch, worker.epoch),
                                      number_or_nothing(worker.has_step, worker.step),
                                      byte_rate(worker.operations.reads.bytes, snapshot.window_ns),
                                      byte_rate(worker.operations.writes.bytes, snapshot.window_ns),
                                      count_rate(worker.operations.all().count, snapshot.window_ns),
                                      has_share ? format_percent(worker.waiting_share) : ""};
    if (has_hosts) cells.emplace_back(printable(worker.host));
    cells.emplace_back(printable(worker.command));
    table.add_row(std::move(cells));
  }
  std::string text = "\n" + table.render(terminal);
  if (snapshot.workers_more > 0) {
    text += fmt::format("and {} more\n", format_exact(snapshot.workers_more));
  }
  return text;
}

std::string files_table(const Snapshot& snapshot, const Terminal& terminal) {
  if (snapshot.files.empty()) return "";
  Table table({{"read", Align::kRight},
               {"written", Align::kRight},
               {"calls/s", Align::kRight},
               {"file", Align::kLeft, true}});
  // Keep the end of a path, which says more than its beginning. `read`, `written` and `calls/s`
  // take 33 columns.
  const size_t room = terminal.columns > 50 ? terminal.columns - 36 : 14;
  for (const FileUse& file : snapshot.files) {
    std::string path = printable(file.path);
    if (path.size() > room && is_utf8(path)) {
      size_t from = path.size() - room + 3;
      while (from < path.size() && (static_cast<unsigned char>(path[from]) & 0xc0) == 0x80) ++from;
      path = "..." + path.substr(from);
    }
    table.add_row({byte_rate(file.read_bytes, snapshot.window_ns),
                   byte_rate(file.written_bytes, snapshot.window_ns),
                   count_rate(file.count, snapshot.window_ns), std::move(path)});
  }
  return "\n" + table.render(terminal);
}

}  // namespace

std::string snapshot_text(const Snapshot& snapshot, const std::string& directory,
                          const Terminal& terminal) {
  // Whole seconds, so that the number does not flicker between looks; tenths in the first second.
  const uint64_t step_ns = snapshot.elapsed_ns < 1'000'000'000 ? 100'000'000 : 1'000'000'000;
  const std::string elapsed = duration(snapshot.elapsed_ns / step_ns * step_ns);
  const std::string rest =
      fmt::format(": started {} ago, showing the last {}", elapsed, duration(snapshot.window_ns));
  const size_t room = terminal.columns > rest.size() + 8 ? terminal.columns - rest.size() : 8;
  std::string text =
      styled(shorten(printable(directory), room), Style::kBold, terminal.color) + rest + "\n";
  text += fmt::format("{}, {}, {}; {}\n\n", counted(snapshot.hosts, "host", "hosts"),
                      counted(snapshot.processes, "process", "processes"), ranks_text(snapshot),
                      lost_text(snapshot, terminal.color));
  text += operations_table(snapshot, terminal);
  text += fmt::format("\n{:.2f} calls at a time\n", snapshot.concurrency);
  text += waiting_line(snapshot, terminal.color);
  text += workers_table(snapshot, terminal);
  text += files_table(snapshot, terminal);
  return text;
}

}  // namespace millrace::watch
