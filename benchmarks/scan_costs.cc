// What each metric of a scan costs per event, compared with decoding, which is the floor of any
// analysis.
//
//   bench_scan_costs TRACE [EVERY]
//
// Uses one thread and every EVERY-th block (default 1). Prints the CPU time per event of reading
// the blocks and of each metric's observe(), and the total time of finish().
#include <fmt/core.h>
#include <time.h>

#include <cstdlib>
#include <map>
#include <string>

#include "analyze/analyze.h"
#include "trace/trace.h"

namespace millrace::bench {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Entry {
  const char* name;
  std::unique_ptr<analyze::Metric> (*make)(const analyze::Context&, const analyze::Limits&);
};

constexpr Entry kEntries[] = {
    {"job", analyze::make_job_metric},
    {"functions", analyze::make_functions_metric},
    {"time", analyze::make_time_metric},
    {"epochs", analyze::make_epochs_metric},
    {"checkpoints", analyze::make_checkpoints_metric},
    {"files", analyze::make_files_metric},
    {"order", analyze::make_order_metric},
    {"timeline", analyze::make_timeline_metric},
    {"tree", analyze::make_tree_metric},
    {"samples", analyze::make_samples_metric},
    {"stalls", analyze::make_stalls_metric},
};

int run(const std::string& path, size_t every) {
  double begin = cpu_seconds();
  const auto trace = trace::Trace::open(path);
  if (!trace.ok()) {
    fmt::print(stderr, "scan_costs: {}\n", trace.error().message());
    return 1;
  }
  const double open = cpu_seconds() - begin;
  begin = cpu_seconds();
  std::vector<std::string> problems;
  const analyze::Options options{.threads = 1};
  const analyze::Context context = analyze::make_context(*trace, options, problems);
  const double prepare = cpu_seconds() - begin;
  const analyze::Limits limits;
  std::vector<std::unique_ptr<analyze::Metric>> metrics;
  for (const Entry& entry : kEntries) metrics.push_back(entry.make(context, limits));
  std::vector<double> seconds(std::size(kEntries) + 1, 0.0);
  uint64_t events = 0;
  trace::EventColumns columns;
  for (size_t i = 0; i < trace->blocks().size(); i += every) {
    begin = cpu_seconds();
    if (!trace->read_block(i, columns).ok()) continue;
    double end = cpu_seconds();
    seconds[0] += end - begin;
    events += columns.size_events();
    const trace::ProcessIndex process = trace->blocks()[i].process;
    const analyze::Block block{.context = context,
                               .columns = columns,
                               .index = i,
                               .process = process,
                               .group = context.group(process)};
    for (size_t m = 0; m < metrics.size(); ++m) {
      begin = end;
      metrics[m]->observe(block);
      end = cpu_seconds();
      seconds[m + 1] += end - begin;
    }
  }
  const auto line = [&](std::string_view name, double spent) {
    fmt::print("{:12} {:8.1f} ns per event\n", name, spent * 1e9 / static_cast<double>(events));
  };
  fmt::print("{} events; opening {:.2f} s, regions {:.2f} s\n", events, open, prepare);
  line("decoding", seconds[0]);
  for (size_t m = 0; m < metrics.size(); ++m) line(kEntries[m].name, seconds[m + 1]);
  analyze::Profile profile;
  for (size_t m = 0; m < metrics.size(); ++m) {
    begin = cpu_seconds();
    metrics[m]->finish(context, profile);
    fmt::print("finish {:12} {:6.2f} s\n", kEntries[m].name, cpu_seconds() - begin);
  }
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: bench_scan_costs TRACE [EVERY]\n");
    return 2;
  }
  const size_t every = argc == 3 ? static_cast<size_t>(std::strtoul(argv[2], nullptr, 10)) : 1;
  return millrace::bench::run(argv[1], every == 0 ? 1 : every);
}
