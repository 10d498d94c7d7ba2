// What the choice of an engine gains for the loader: one read at a time (posix), many in flight
// (uring), and the choice by measurement (auto), with a warm and a cold page cache.
//
//   bench_engine_choice [ROUNDS] [DIRECTORY] [ONLY]     needs 700 MB there; removes them
//
// ONLY is a part of a title ("cold, 2 threads"); other cases are skipped.
//
// Samples have 4 KiB and 128 KiB, all in one file or one file each. They are shuffled, in batches
// of 64, with 1 and 2 threads. Cold: the files are dropped from the page cache
// (POSIX_FADV_DONTNEED) before each run, but not from the cache of the device; names and inodes
// also stay in the kernel. Contenders run in turn, round after round; the best round of each
// counts. The others are compared with the first.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "benchmarks/must.h"
#include "benchmarks/verbatim.h"
#include "format/file_source.h"
#include "loader/loader.h"

namespace millrace::bench {
namespace {

using data::Epoch;
using loader::Loader;

struct Way {
  std::string name;
  std::string engine;
  uint32_t io_depth;
};

const Way kWays[] = {{"posix", "posix", 1},
                     {"uring, 8 in flight", "uring", 8},
                     {"uring, 32", "uring", 32},
                     {"uring, 128", "uring", 128},
                     {"auto", "auto", 32}};

struct Samples {
  std::string name;
  size_t sample_bytes;
  uint64_t count;
  std::filesystem::path directory;  // with one file per sample; or
  std::filesystem::path file;       // all samples in one file
};

std::shared_ptr<const data::SampleSource> open(const Samples& samples, const std::string& engine) {
  std::shared_ptr<io::Engine> how = must(io::open_engine(engine));
  if (!samples.file.empty()) {
    return must(format::open_files({.format = "raw",
                                    .format_options = {.record_bytes = samples.sample_bytes},
                                    .paths = {samples.file},
                                    .engine = how}));
  }
  return must(format::open_folder(
      {.directory = samples.directory, .extensions = {}, .has_classes = false, .engine = how}));
}

std::vector<Samples> make_samples(const std::filesystem::path& directory, size_t sample_bytes,
                                  uint64_t count) {
  const std::string size = fmt::format("{} KiB", sample_bytes >> 10);
  Samples one{size + ", all in one file", sample_bytes, count, {}, directory / (size + ".raw")};
  Samples each{size + ", one file per sample", sample_bytes, count, directory / size, {}};
  std::filesystem::create_directory(each.directory);
  const File all = must(File::open(one.file, O_WRONLY | O_CREAT));
  std::vector<uint64_t> words(sample_bytes / 8);
  Random random(1);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t& word : words) word = random.next();
    const ByteView bytes = std::as_bytes(std::span(words));
    must(all.write_at(i * sample_bytes, bytes));
    const auto path = each.directory / fmt::format("{:06}.raw", i);
    must(must(File::open(path, O_WRONLY | O_CREAT)).write_at(0, bytes));
  }
  sync();  // dirty pages cannot be dropped
  return {std::move(one), std::move(each)};
}

void drop(const std::filesystem::path& path) {
  const File file = must(File::open(path, O_RDONLY));
  if (posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED) != 0) give_up("cannot drop a file");
}

void drop(const Samples& samples) {
  if (!samples.file.empty()) return drop(samples.file);
  for (const auto& entry : std::filesystem::directory_iterator(samples.directory)) {
    drop(entry.path());
  }
}

struct Cost {
  double samples_per_second = 0;
  double cpu_s_per_1k = 1e300;
  loader::pipeline::ReadStats reads;
};

Cost run_once(const Samples& samples, const Way& way, uint32_t threads, uint64_t epochs) {
  const auto source = open(samples, way.engine);
  const auto cpu = process_cpu_time();
  const auto wall = monotonic_now();
  const auto loader =
      must(Loader::open({.source = source,
                         .decoder = std::make_shared<Verbatim>(samples.sample_bytes),
                         .batch_size = 64,
                         .thread_count = threads,
                         .io_depth = way.io_depth}));
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    must(loader->start_epoch(Epoch{epoch}));
    while (const auto batch = must(loader->next())) keep(batch->fields[0].bytes[0]);
  }
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  const auto read = static_cast<double>(samples.count * epochs);
  return {read / seconds(monotonic_now() - wall), seconds(process_cpu_time() - cpu) / read * 1000,
          loader->stats().reads};
}

std::string title_of(const Samples& samples, bool is_cold, uint32_t threads) {
  return fmt::format("{}, {}, {} thread{}", samples.name, is_cold ? "cold" : "warm", threads,
                     threads > 1 ? "s" : "");
}

void compare_ways(const Samples& samples, bool is_cold, uint32_t threads, int rounds) {
  std::vector<Cost> best(std::size(kWays));
  for (int round = 0; round < rounds; ++round) {
    for (size_t turn = 0; turn < std::size(kWays); ++turn) {
      // Another contender is first in every round: a virtual disk may serve the first ones faster.
      const size_t i = (turn + static_cast<size_t>(round)) % std::size(kWays);
      if (is_cold) drop(samples);
      const Cost cost = run_once(samples, kWays[i], threads, is_cold ? 1 : 3);
      best[i].samples_per_second = std::max(best[i].samples_per_second, cost.samples_per_second);
      best[i].cpu_s_per_1k = std::min(best[i].cpu_s_per_1k, cost.cpu_s_per_1k);
      best[i].reads = cost.reads;
    }
  }
  using enum Table::Align;
  Table table({{.title = title_of(samples, is_cold, threads)},
               {.title = "samples/s", .align = kRight},
               {.title = "of posix", .align = kRight},
               {.title = "CPU s/1k", .align = kRight},
               {.title = "of posix", .align = kRight},
               {.title = "engine at the end of the last round"}});
  for (size_t i = 0; i < std::size(kWays); ++i) {
    std::string reads = best[i].reads.engine;
    for (const auto& way : best[i].reads.measured) {
      reads += fmt::format("; {} {:.0f} MB/s", way.name, way.bytes_per_second / 1e6);
    }
    table.add_row({kWays[i].name, fmt::format("{:.0f}", best[i].samples_per_second),
                   fmt::format("{:.2f}", best[i].samples_per_second / best[0].samples_per_second),
                   fmt::format("{:.4f}", best[i].cpu_s_per_1k),
                   fmt::format("{:.2f}", best[i].cpu_s_per_1k / best[0].cpu_s_per_1k), reads});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
  std::fflush(stdout);
}

void run(int rounds, const std::filesystem::path& where, std::string_view only) {
  const auto directory = must(TemporaryDirectory::create(where, "bench-engines-"));
  for (const auto& [bytes, count] :
       {std::pair{size_t{4} << 10, 8000}, std::pair{size_t{128} << 10, 2000}}) {
    for (const Samples& samples : make_samples(directory.path(), bytes, count)) {
      for (const bool is_cold : {false, true}) {
        for (const uint32_t threads : {1u, 2u}) {
          const std::string title = title_of(samples, is_cold, threads);
          if (title.find(only) == std::string::npos) continue;
          compare_ways(samples, is_cold, threads, rounds);
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) {
    fmt::print(stderr, "usage: bench_engine_choice [ROUNDS] [DIRECTORY] [ONLY]\n");
    return 2;
  }
  millrace::bench::run(rounds, argc > 2 ? argv[2] : ".", argc > 3 ? argv[3] : "");
}
