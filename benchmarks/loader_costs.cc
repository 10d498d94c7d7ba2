// What the loader costs: raw samples of 128 KiB, shuffled, in batches of 64, compared with the same
// reads without a loader.
//
//   bench_loader_costs [ROUNDS] [SAMPLES]
//   bench_loader_costs --once floor|loader PATH THREADS EPOCHS
//
// 4,000 samples, one file each and all in one file, in a temporary directory (TMPDIR; 1 GB), in the
// page cache. The floor is the same number of threads, which open, read and close, or pread, the
// same samples in the same order into a ring of the same length as the loader's. Floor and loader
// take turns; the best round of each counts. Then it measures the time to the first batch of the
// first epoch, including the opening of the loader, and of a later epoch.
//
// --once reads the folder or file PATH, and prints the epochs after the first as JSON.
// loader_peers.py uses it to compare its loaders with a floor on the same files. New files lie in
// the page cache in larger pieces than files that were read from disk, and are cheaper to copy
// (docs/design/pipeline.md).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
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
#include "loader/pipeline/batch_memory.h"

namespace millrace::bench {
namespace {

using data::Epoch;
using loader::Loader;
using loader::LoaderOptions;

constexpr size_t kSampleBytes = 128 << 10;
constexpr uint64_t kBatchSize = 64;
constexpr uint64_t kRingBatches = 4;  // the loader's batches in progress, ready and in use
constexpr size_t kRingBytes = kRingBatches * kBatchSize * kSampleBytes;
constexpr uint64_t kEpochs = 3;

struct Cost {
  double samples_per_second = 0;
  double cpu_s_per_1k = 1e300;

  void take_best(const Cost& other) {
    samples_per_second = std::max(samples_per_second, other.samples_per_second);
    cpu_s_per_1k = std::min(cpu_s_per_1k, other.cpu_s_per_1k);
  }
};

template <typename Work>
Cost measured(uint64_t samples, Work work) {
  const auto cpu = process_cpu_time();
  const auto wall = monotonic_now();
  work();
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  return {static_cast<double>(samples) / seconds(monotonic_now() - wall),
          seconds(process_cpu_time() - cpu) / static_cast<double>(samples) * 1000};
}

struct Samples {
  std::string name;
  std::vector<std::string> files;  // one, or one per sample
  std::shared_ptr<const data::SampleSource> source;
};

void make_samples(const std::filesystem::path& directory, uint64_t count) {
  std::filesystem::create_directory(directory / "files");
  const File all = must(File::open(directory / "all.raw", O_WRONLY | O_CREAT));
  std::vector<uint64_t> words(kSampleBytes / 8);
  Random random(1);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t& word : words) word = random.next();
    const ByteView bytes = std::as_bytes(std::span(words));
    must(all.write_at(i * kSampleBytes, bytes));
    const auto path = directory / "files" / fmt::format("{:06}.raw", i);
    must(must(File::open(path, O_WRONLY | O_CREAT)).write_at(0, bytes));
  }
}

// A folder with one file per sample, or one file of many.
Samples open_samples(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    return {
        .name = "all in one file",
        .files = {path},
        .source = must(format::open_files(
            {.format = "raw", .format_options = {.record_bytes = kSampleBytes}, .paths = {path}}))};
  }
  Samples samples{.name = "one file per sample"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) samples.files.push_back(entry.path());
  }
  std::ranges::sort(samples.files);
  samples.source =
      must(format::open_folder({.directory = path, .extensions = {}, .has_classes = false}));
  if (samples.files.size() != samples.source->sample_count()) {
    give_up("the folder has files that are not samples");
  }
  return samples;
}

// Only open, read and close, or pread. The samples of a batch are read one after another.
class Floor {
 public:
  Floor(const Samples& samples, uint32_t thread_count, uint64_t epochs)
      : samples_(samples), thread_count_(thread_count) {
    if (samples.files.size() == 1) file_ = must(File::open(samples.files[0], O_RDONLY));
    memory_ = must(loader::pipeline::BatchMemory({.buffer_bytes = kRingBytes}).take());
    // Touches the pages before the clock starts.
    std::fill_n(memory_.get(), kRingBytes, std::byte{0});
    auto loader = must(Loader::open(options()));
    const auto& order = loader->order();
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      for (uint64_t i = 0; i < order.size(); ++i) {
        order_.push_back(data::index_of(order.at(Epoch{epoch}, i)));
      }
    }
  }

  Cost run() {
    return measured(order_.size(), [&] {
      std::atomic<uint64_t> next = 0;
      std::vector<std::thread> threads;
      for (uint32_t i = 0; i < thread_count_; ++i) {
        threads.emplace_back([&] {
          while (true) {
            const uint64_t begin = next.fetch_add(8);
            if (begin >= order_.size()) return;
            for (uint64_t k = begin; k < std::min<uint64_t>(begin + 8, order_.size()); ++k) read(k);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
  }

 private:
  LoaderOptions options() const {
    return {.source = samples_.source,
            .decoder = std::make_shared<Verbatim>(kSampleBytes),
            .batch_size = kBatchSize};
  }

  void read(uint64_t position) const {
    const uint64_t sample = order_[position];
    std::byte* const place = memory_.get() + position % (kRingBatches * kBatchSize) * kSampleBytes;
    ssize_t size = 0;
    if (file_.is_open()) {
      size = pread(file_.fd(), place, kSampleBytes, static_cast<off_t>(sample * kSampleBytes));
    } else {
      const int fd = ::open(samples_.files[sample].c_str(), O_RDONLY | O_CLOEXEC);
      size = ::read(fd, place, kSampleBytes);
      ::close(fd);
    }
    if (size != static_cast<ssize_t>(kSampleBytes)) give_up("the floor could not read a sample");
  }

  const Samples& samples_;
  uint32_t thread_count_;
  File file_;
  std::shared_ptr<std::byte> memory_;  // allocated like the loader's, so that both use huge pages
  std::vector<uint64_t> order_;
};

struct FirstBatch {
  double first_ms = 1e300;
  double later_ms = 0;  // the worst of the later epochs of the best round
};

struct LoaderRun {
  Cost cost;
  FirstBatch first;
};

double ms_since(std::chrono::nanoseconds begin) {
  return std::chrono::duration<double, std::milli>(monotonic_now() - begin).count();
}

std::unique_ptr<Loader> open_loader(const Samples& samples, uint32_t thread_count) {
  return must(Loader::open({.source = samples.source,
                            .decoder = std::make_shared<Verbatim>(kSampleBytes),
                            .batch_size = kBatchSize,
                            .thread_count = thread_count}));
}

LoaderRun run_loader(const Samples& samples, uint32_t thread_count) {
  LoaderRun run;
  const uint64_t count = samples.source->sample_count() * kEpochs;
  run.cost = measured(count, [&] {
    const auto opened = monotonic_now();
    const auto loader = open_loader(samples, thread_count);
    uint64_t rows = 0;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto begun = monotonic_now();
      must(loader->start_epoch(Epoch{epoch}));
      bool is_first = true;
      while (const auto batch = must(loader->next())) {
        if (is_first && epoch == 0) run.first.first_ms = ms_since(opened);
        if (is_first && epoch > 0)
          run.first.later_ms = std::max(run.first.later_ms, ms_since(begun));
        is_first = false;
        rows += batch->row_count;
        keep(batch->fields[0].bytes[0]);
      }
    }
    if (rows != count) give_up("the loader did not return every sample");
  });
  return run;
}

void compare_with_floor(const Samples& samples, uint32_t thread_count, int rounds, Table& table) {
  Floor floor(samples, thread_count, kEpochs);
  Cost floor_best;
  Cost best;
  FirstBatch first{.later_ms = 1e300};
  for (int round = 0; round < rounds; ++round) {
    floor_best.take_best(floor.run());
    const LoaderRun run = run_loader(samples, thread_count);
    best.take_best(run.cost);
    first.first_ms = std::min(first.first_ms, run.first.first_ms);
    first.later_ms = std::min(first.later_ms, run.first.later_ms);
  }
  table.add_row({samples.name, fmt::format("{}", thread_count),
                 fmt::format("{:.0f}", floor_best.samples_per_second),
                 fmt::format("{:.0f}", best.samples_per_second),
                 fmt::format("{:.2f}", best.samples_per_second / floor_best.samples_per_second),
                 fmt::format("{:.4f}", floor_best.cpu_s_per_1k),
                 fmt::format("{:.4f}", best.cpu_s_per_1k),
                 fmt::format("{:.2f}", best.cpu_s_per_1k / floor_best.cpu_s_per_1k),
                 fmt::format("{:.2f}", first.first_ms), fmt::format("{:.3f}", first.later_ms)});
}

void run(int rounds, uint64_t count) {
  const auto directory = must(TemporaryDirectory::create());
  make_samples(directory.path(), count);
  std::vector<Table::Column> columns = {{.title = fmt::format("{} samples of 128 KiB", count)}};
  for (const char* title : {"threads", "floor/s", "loader/s", "ratio", "floor CPU s/1k",
                            "loader CPU s/1k", "ratio", "first batch ms", "of a later epoch ms"}) {
    columns.push_back({.title = title, .align = Table::Align::kRight});
  }
  Table table(columns);
  for (const char* name : {"files", "all.raw"}) {
    const Samples samples = open_samples(directory.path() / name);
    for (const uint32_t thread_count : {1u, 2u}) {
      compare_with_floor(samples, thread_count, rounds, table);
    }
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

// ---- --once: existing files ---------------------------------------------------------------------

struct Once {
  std::string what;  // floor, or the loader without Python
  Samples samples;
  uint32_t thread_count = 1;
  uint64_t epochs = 1;
};

// Runs one epoch, and returns the time to its first batch, in ms.
double load_epoch(Loader& loader, uint64_t epoch) {
  const auto begun = monotonic_now();
  double first_ms = 0;
  must(loader.start_epoch(Epoch{epoch}));
  while (const auto batch = must(loader.next())) {
    if (first_ms == 0) first_ms = ms_since(begun);
    keep(batch->fields[0].bytes[0]);
  }
  return first_ms;
}

LoaderRun load_once(const Once& once) {
  const auto loader = open_loader(once.samples, once.thread_count);
  LoaderRun run{.first = {.first_ms = load_epoch(*loader, 0), .later_ms = 1e300}};
  run.cost = measured(once.samples.source->sample_count() * once.epochs, [&] {
    for (uint64_t epoch = 1; epoch <= once.epochs; ++epoch) {
      run.first.later_ms = std::min(run.first.later_ms, load_epoch(*loader, epoch));
    }
  });
  return run;
}

LoaderRun read_once(const Once& once) {
  Floor floor(once.samples, once.thread_count, once.epochs);
  floor.run();
  return {.cost = floor.run(), .first = {.first_ms = 0}};
}

void run_once(const Once& once) {
  if (once.what != "floor" && once.what != "loader") give_up("--once takes floor or loader");
  const LoaderRun run = once.what == "floor" ? read_once(once) : load_once(once);
  fmt::print(
      R"({{"rate": {}, "cpu": {}, "open_ms": 0, "first_ms": {}, "later_ms": {}, "samples": {}}})"
      "\n",
      run.cost.samples_per_second, run.cost.cpu_s_per_1k, run.first.first_ms, run.first.later_ms,
      once.samples.source->sample_count());
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--once") {
    millrace::bench::run_once(
        {.what = argv[2],
         .samples = millrace::bench::open_samples(argv[3]),
         .thread_count = static_cast<uint32_t>(std::max(std::atoi(argv[4]), 1)),
         .epochs = std::max<uint64_t>(std::strtoull(argv[5], nullptr, 10), 1)});
    return 0;
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4000;
  if (rounds < 1 || count < 1) {
    fmt::print(stderr,
               "usage: bench_loader_costs [ROUNDS] [SAMPLES]\n"
               "       bench_loader_costs --once floor|loader PATH THREADS EPOCHS\n");
    return 2;
  }
  millrace::bench::run(rounds, count);
}
