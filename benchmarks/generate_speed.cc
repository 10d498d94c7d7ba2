// Generation of datasets beside what dd writes to the same folder, and the cost of verifying.
//
// usage: bench_generate_speed [FOLDER [MEGABYTES]]   (default: the current folder, 1000)
//
// All write to the page cache. dd copies /dev/zero in blocks of 1 MiB, one process; its files are
// preallocated by nobody, as ours. The rounds alternate, and the best of each counts, so that a
// slow moment of the machine does not decide. On a busy machine, compare the CPU time. A dataset's
// rate includes making, renaming and closing its files, and what is encoded once for all of them.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/temporary_directory.h"
#include "base/system/clock.h"
#include "base/system/cpus.h"
#include "base/text/table.h"
#include "base/text/units.h"
#include "bench/generate/generate.h"
#include "bench/generate/verify.h"
#include "benchmarks/must.h"
#include "comm/single.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3;

struct Case {
  std::string name;
  std::string format;
  double record_bytes = 0;
  uint64_t samples_per_file = 1;
  ContentKind content = ContentKind::kRandom;
};

const std::vector<Case> kCases = {
    {"npz 146.6 MB", "npz", 146600628},
    {"npz 115 KB", "npz", 114660},
    {"npy 115 KB", "npy", 114660},
    {"tfrecord 115 KB x 1000", "tfrecord", 114660, 1000},
    {"tfrecord 2500 B x 10000", "tfrecord", 2500, 10000},
    {"tfrecord 2.8 MB", "tfrecord", 2828486},
    {"raw 16 MB", "raw", 16e6},
    {"indexed_binary 115 KB x 1000", "indexed_binary", 114660, 1000},
    {"jpeg of 115 KB", "jpeg", 114660},
    {"png of 115 KB", "png", 114660},
    // As the workloads with images have them.
    {"jpeg of 115 KB, photo", "jpeg", 114660, 1, ContentKind::kPhoto},
    {"jpeg of 323 KB, photo", "jpeg", 322957, 1, ContentKind::kPhoto},
    {"png of 833 KB, photo", "png", 833333, 1, ContentKind::kPhoto},
};

double seconds_since(std::chrono::nanoseconds start) {
  return std::chrono::duration<double>(monotonic_now() - start).count();
}

// CPU seconds of this process and of those that it has waited for.
double cpu_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    struct rusage used{};
    ::getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime}) {
      sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return sum;
}

// Bytes per second of wall time and of CPU time.
struct Rates {
  double wall = 0;
  double cpu = 0;

  void keep_best(const Rates& other) {
    wall = std::max(wall, other.wall);
    cpu = std::max(cpu, other.cpu);
  }
};

Rates dd_rates(const fs::path& folder, uint64_t megabytes) {
  const fs::path file = folder / "dd";
  const std::string command = fmt::format("dd if=/dev/zero of='{}' bs=1048576 count={} 2>/dev/null",
                                          file.string(), megabytes);
  const double cpu_before = cpu_seconds();
  const auto start = monotonic_now();
  if (std::system(command.c_str()) != 0) give_up("dd failed");
  const auto size = static_cast<double>(megabytes << 20);
  const Rates rates{.wall = size / seconds_since(start),
                    .cpu = size / (cpu_seconds() - cpu_before)};
  fs::remove(file);
  return rates;
}

Rates generate_rates(const fs::path& folder, const Case& tried, uint64_t megabytes,
                     size_t threads) {
  Workload workload;
  workload.dataset.format = named<DatasetFormat>(tried.format).value();
  workload.dataset.record_length_bytes = tried.record_bytes;
  workload.dataset.num_samples_per_file = tried.samples_per_file;
  workload.dataset.content = tried.content;
  workload.dataset.data_folder = folder / "data";
  const double file_bytes = tried.record_bytes * static_cast<double>(tried.samples_per_file);
  workload.dataset.num_files_train = std::max<uint64_t>(
      2, static_cast<uint64_t>(static_cast<double>(megabytes << 20) / file_bytes));
  const auto comm = comm::single();
  const double cpu_before = cpu_seconds();
  const auto start = monotonic_now();
  const GenerateReport report = must(generate(workload, *comm, {.thread_count = threads}));
  const auto size = static_cast<double>(report.dataset_bytes);
  const Rates rates{.wall = size / seconds_since(start),
                    .cpu = size / (cpu_seconds() - cpu_before)};
  fs::remove_all(folder / "data");
  return rates;
}

void compare_with_dd(const fs::path& folder, uint64_t megabytes) {
  Table table({{.title = "what"},
               {.title = "dd", .align = Table::Align::kRight},
               {.title = "1 thread", .align = Table::Align::kRight},
               {.title = "of dd", .align = Table::Align::kRight},
               {.title = "all CPUs", .align = Table::Align::kRight},
               {.title = "of dd", .align = Table::Align::kRight},
               {.title = "CPU time of dd", .align = Table::Align::kRight}});
  for (const Case& tried : kCases) {
    Rates dd;
    Rates one;
    Rates all;
    for (int round = 0; round < kRounds; ++round) {
      dd.keep_best(dd_rates(folder, megabytes));
      one.keep_best(generate_rates(folder, tried, megabytes, 1));
      all.keep_best(generate_rates(folder, tried, megabytes, usable_cpu_count()));
    }
    table.add_row({tried.name, format_bandwidth(dd.wall), format_bandwidth(one.wall),
                   fmt::format("{:.2f}", one.wall / dd.wall), format_bandwidth(all.wall),
                   fmt::format("{:.2f}", all.wall / dd.wall),
                   fmt::format("{:.2f}", dd.cpu / one.cpu)});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

// How fast contents are made and verified in memory, by one thread.
void measure_contents() {
  Table table({{.title = "content"},
               {.title = "filled", .align = Table::Align::kRight},
               {.title = "verified", .align = Table::Align::kRight}});
  for (const std::string_view kind : kWords<ContentKind>) {
    Workload workload;
    workload.dataset.content = *named<ContentKind>(kind);
    workload.dataset.record_length_bytes = 4 << 20;
    const Layout layout = must(Layout::of(workload));
    const Content content = Content(workload.dataset);
    const ContentArray record = record_of(layout, {});
    std::vector<std::byte> bytes(static_cast<size_t>(record.size_bytes()));
    double best[2] = {1e9, 1e9};
    for (int round = 0; round < 10; ++round) {
      auto start = monotonic_now();
      for (size_t at = 0; at < bytes.size(); at += 256 << 10) {  // into one block, as in generation
        content.fill(record, at, std::span(bytes).first(256 << 10));
      }
      best[0] = std::min(best[0], seconds_since(start));
      content.fill(record, 0, bytes);
      start = monotonic_now();
      must(verify_sample(layout, content, {},
                         {.type = record.type, .shape = record.shape, .bytes = bytes}));
      best[1] = std::min(best[1], seconds_since(start));
    }
    const auto size = static_cast<double>(bytes.size());
    table.add_row(
        {std::string(kind), format_bandwidth(size / best[0]), format_bandwidth(size / best[1])});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const auto megabytes = static_cast<uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1000);
  const auto directory = bench::must(TemporaryDirectory::create(folder));
  bench::measure_contents();
  bench::compare_with_dd(directory.path(), megabytes);
  return 0;
}
