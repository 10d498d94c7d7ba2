// Makes a packed trace that resembles that of a training job, of any size, from a seed.
//
//   bench_trace_generate [--events N] [--ranks N] [--ranks-per-host N] [--workers N] [--epochs N]
//                        [--steps N] [--files N] [--shape small|records] [--seed N] DIRECTORY
//
// N may end in k, M or G. Each rank is a training process and --workers processes, forked from it,
// that load its batches; with 0 workers it loads them itself. Every step has the regions
// batch_wait, forward, backward and optimizer; every batch has a fetch; every sample has a read and
// a decode; all with epoch and step. At the end of an epoch, rank 0 writes a checkpoint.
//   small    one file per sample: open, get the size, read, close; in a new order every epoch
//   records  one pread per sample at random places of few large files, opened once per epoch
// In the first epoch, nothing is in the page cache. Occasionally a call fails.
//
// A worker loads two batches ahead, and the trainer waits until its batch is ready, so that the
// times of a rank are consistent; ranks do not wait for each other. Batches have 32 samples, and
// the number of steps follows from the number of events. With --steps, the batch size follows
// instead. The number of events is exact to within one batch per rank.
//
// Makes one file per host, HOST.mrt, one after another. It needs memory for the names of one host,
// and for one block per process of one rank. Equal options give equal bytes.
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/random.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "trace/testing/event_samples.h"
#include "trace/trace.h"
#include "wire/trace_file.h"

namespace millrace::bench {
namespace {

using trace::NameIndex;
using trace::SampleEvent;
using trace::ThreadIndex;
using trace::TraceWriter;

constexpr int64_t kOriginWallNs = 1'750'000'000'000'000'000;
constexpr uint64_t kStartNs = 1'000'000'000;
constexpr uint64_t kRecordBytes = 150'528;  // 224 x 224 x 3
constexpr uint64_t kRecordsInFile = 8192;
constexpr uint64_t kFilesMax = 1'000'000;  // by default
constexpr uint64_t kBatchSamples = 32;
constexpr uint64_t kStepRegions = 5;  // fetch, batch_wait, forward, backward, optimizer
constexpr uint64_t kCheckpointWrites = 64;
constexpr uint64_t kCheckpointWriteBytes = 4 << 20;

struct Options {
  uint64_t events = 1'000'000;
  uint64_t ranks = 4;
  uint64_t ranks_per_host = 4;
  uint64_t workers = 4;
  uint64_t epochs = 3;
  uint64_t steps = 0;  // 0: from the number of events
  uint64_t files = 0;  // 0: as many as an epoch has samples, or 64 with records
  uint64_t seed = 1;
  bool records = false;
  uint64_t batch = kBatchSamples;
  std::string directory;
};

// What follows from the options, for all ranks.
void settle(Options& options) {
  const uint64_t sample_events = options.records ? 3 : 6;
  const uint64_t rank_epochs = options.ranks * options.epochs;
  if (options.steps == 0) {
    const uint64_t step_events = options.batch * sample_events + kStepRegions;
    options.steps = std::max<uint64_t>(1, options.events / rank_epochs / step_events);
  } else {
    const uint64_t step_events = options.events / rank_epochs / options.steps;
    options.batch = step_events > kStepRegions + sample_events
                        ? (step_events - kStepRegions) / sample_events
                        : 1;
  }
  if (options.files != 0) return;
  const uint64_t epoch_samples = options.ranks * options.steps * options.batch;
  options.files = options.records ? 64 : std::min(kFilesMax, epoch_samples);
}

// The order of an epoch: a permutation of [0, count) without a table. Walks a permutation of the
// next power of two until the value is below count.
class Shuffle {
 public:
  Shuffle(uint64_t count, uint64_t seed) : count_(count) {
    const auto bits = std::max(2u, static_cast<unsigned>(std::bit_width(count - 1)));
    mask_ = (uint64_t{1} << bits) - 1;
    shift_ = bits / 2;
    Random random(seed);
    for (uint64_t& key : keys_) key = random.next();
  }

  uint64_t operator()(uint64_t position) const {
    uint64_t at = position % count_;
    do {
      for (const uint64_t key : keys_) {
        at = ((at ^ (key >> 32)) & mask_) * (key | 1) & mask_;
        at ^= at >> shift_;
      }
    } while (at >= count_);
    return at;
  }

 private:
  uint64_t count_;
  uint64_t mask_ = 0;
  unsigned shift_ = 0;
  uint64_t keys_[3];
};

// The names in the file of one host; names of samples are added on first use.
class Names {
 public:
  Names(TraceWriter& writer, const Options& options)
      : writer_(writer), records_(options.records), samples_(options.files) {}

  NameIndex operator()(std::string_view name) { return writer_.add_name(name); }

  NameIndex sample(uint64_t file) {
    NameIndex& known = samples_[file];
    if (known == NameIndex{}) {
      known = writer_.add_name(
          records_ ? fmt::format("/data/train/shard-{:05}.rec", file)
                   : fmt::format("/data/train/class{:04}/sample{:08}.jpg", file % 1000, file));
    }
    return known;
  }

 private:
  TraceWriter& writer_;
  bool records_;
  std::vector<NameIndex> samples_;
};

// One process: its clock, and the writer of its events. Without a file, it only counts events and
// time; so the process table has the end of each process before the first event is written.
class Process {
 public:
  explicit Process(uint64_t start_ns) : now_ns(start_ns) {}
  Process(uint64_t start_ns, TraceWriter& writer, ThreadIndex thread)
      : now_ns(start_ns), writer_(&writer), thread_(thread) {}

  // Moves the clock to the event's end. Its begin is set here.
  void call(SampleEvent event, uint64_t duration_ns) {
    event.begin_ns = now_ns;
    event.duration_ns = duration_ns;
    now_ns += duration_ns;
    keep(event);
    now_ns += 150;  // the gap before the next event
  }

  void region(NameIndex name, uint64_t begin_ns, uint64_t epoch, uint64_t step) {
    keep({.begin_ns = begin_ns,
          .duration_ns = now_ns - begin_ns,
          .call = wire::Call::kRegion,
          .file = name,
          .offset = step,
          .size = epoch});
    now_ns += 100;
  }

  Status flush() {
    if (writer_ != nullptr && status_.ok()) status_ = writer_->append(columns_);
    clear(columns_);
    return status_;
  }

  uint64_t now_ns;
  uint64_t event_count = 0;

 private:
  void keep(SampleEvent event) {
    ++event_count;
    if (writer_ == nullptr) return;
    event.thread = thread_;
    push(columns_, event);
    if (columns_.size_events() == wire::kTraceBlockEventsMax) (void)flush();
  }

  TraceWriter* writer_ = nullptr;
  ThreadIndex thread_{};
  trace::EventColumns columns_;
  Status status_;
};

struct RegionNames {
  NameIndex epoch, fetch, read, decode, batch_wait, forward, backward, optimizer, checkpoint;
};

RegionNames region_names(Names& names) {
  return {names("epoch"),    names("fetch"),      names("read"),
          names("decode"),   names("batch_wait"), names("forward"),
          names("backward"), names("optimizer"),  names("checkpoint")};
}

// What the processes of one rank do: the trainer first, then the workers.
class RankRun {
 public:
  RankRun(const Options& options, uint64_t rank, Names* names, std::vector<Process>& processes)
      : options_(options),
        rank_(rank),
        names_(names),
        processes_(processes),
        random_(options.seed * 1'000'003 + rank),
        taken_ns_(std::max<uint64_t>(1, 2 * options.workers), 0) {
    if (names != nullptr) regions_ = region_names(*names);
  }

  void run() {
    for (uint64_t epoch = 0; epoch < options_.epochs; ++epoch) run_epoch(epoch);
  }

 private:
  Process& trainer() { return processes_.front(); }
  NameIndex sample_name(uint64_t file) {
    return names_ == nullptr ? NameIndex{} : names_->sample(file);
  }
  NameIndex name(std::string_view text) {
    return names_ == nullptr ? NameIndex{} : (*names_)(text);
  }

  void run_epoch(uint64_t epoch) {
    const Shuffle shuffle(options_.files, options_.seed * 7919 + epoch);
    const uint64_t begin_ns = trainer().now_ns;
    if (options_.records) open_shards();
    for (uint64_t step = 0; step < options_.steps; ++step) run_step(shuffle, epoch, step);
    if (options_.records) close_shards();
    if (rank_ == 0) checkpoint(epoch);
    trainer().region(regions_.epoch, begin_ns, epoch, wire::kNoStep);
  }

  void run_step(const Shuffle& shuffle, uint64_t epoch, uint64_t step) {
    const uint64_t wait_begin_ns = trainer().now_ns;
    const bool loads_itself = options_.workers == 0;
    Process& loader = loads_itself ? trainer() : processes_[1 + step % options_.workers];
    uint64_t& taken_ns = taken_ns_[step % taken_ns_.size()];
    loader.now_ns = std::max(loader.now_ns, taken_ns);
    fetch(loader, shuffle, epoch, step);
    Process& training = trainer();
    training.now_ns = std::max(training.now_ns, loader.now_ns) + noisy(20'000);
    taken_ns = training.now_ns;
    training.region(regions_.batch_wait, wait_begin_ns, epoch, step);
    const uint64_t sample_ns = 250'000;
    compute(regions_.forward, options_.batch * sample_ns, epoch, step);
    compute(regions_.backward, 2 * options_.batch * sample_ns, epoch, step);
    compute(regions_.optimizer, 3'000'000, epoch, step);
  }

  void compute(NameIndex region, uint64_t typical_ns, uint64_t epoch, uint64_t step) {
    const uint64_t begin_ns = trainer().now_ns;
    trainer().now_ns += noisy(typical_ns);
    trainer().region(region, begin_ns, epoch, step);
  }

  void fetch(Process& loader, const Shuffle& shuffle, uint64_t epoch, uint64_t step) {
    const uint64_t begin_ns = loader.now_ns;
    for (uint64_t i = 0; i < options_.batch; ++i) {
      const uint64_t position = (step * options_.batch + i) * options_.ranks + rank_;
      const uint64_t read_begin_ns = loader.now_ns;
      const bool is_cold = epoch == 0 || random_.below(16) == 0;
      if (options_.records) {
        read_record(loader, is_cold);
      } else {
        read_file(loader, shuffle(position), is_cold);
      }
      loader.region(regions_.read, read_begin_ns, epoch, step);
      const uint64_t decode_begin_ns = loader.now_ns;
      loader.now_ns += noisy(900'000);
      loader.region(regions_.decode, decode_begin_ns, epoch, step);
    }
    loader.region(regions_.fetch, begin_ns, epoch, step);
  }

  void read_file(Process& loader, uint64_t file, bool is_cold) {
    const NameIndex path = sample_name(file);
    // A file has the same size in every epoch.
    const uint64_t size_bytes = 20'000 + Random(file).below(180'000);
    if (random_.below(2000) == 0) {
      loader.call({.call = wire::Call::kOpen,
                   .file = path,
                   .result = -1,
                   .error = EINTR,
                   .detail = O_RDONLY | O_CLOEXEC},
                  noisy(2'000));
    }
    loader.call(
        {.call = wire::Call::kOpen, .file = path, .result = 9, .detail = O_RDONLY | O_CLOEXEC},
        noisy(is_cold ? 90'000 : 2'500));
    loader.call({.call = wire::Call::kFstat, .file = path}, noisy(500));
    loader.call({.call = wire::Call::kRead,
                 .file = path,
                 .offset = 0,
                 .size = size_bytes,
                 .result = static_cast<int64_t>(size_bytes)},
                noisy(is_cold ? 400'000 + 2 * size_bytes : 2'000 + size_bytes / 8));
    loader.call({.call = wire::Call::kClose, .file = path}, noisy(600));
  }

  void read_record(Process& loader, bool is_cold) {
    const uint64_t offset = kRecordBytes * random_.below(kRecordsInFile);
    const NameIndex path = sample_name(random_.below(options_.files));
    SampleEvent event{.call = wire::Call::kPread,
                      .file = path,
                      .offset = offset,
                      .size = kRecordBytes,
                      .result = static_cast<int64_t>(kRecordBytes)};
    if (random_.below(2000) == 0) {
      event.result = -1;
      event.error = EINTR;
      loader.call(event, noisy(2'000));
      event.result = static_cast<int64_t>(kRecordBytes);
      event.error = 0;
    }
    loader.call(event, noisy(is_cold ? 700'000 : 20'000));
  }

  template <typename Work>
  void for_each_shard(Work&& work) {
    for (size_t i = options_.workers == 0 ? 0 : 1; i < processes_.size(); ++i) {
      for (uint64_t file = 0; file < options_.files; ++file) {
        work(processes_[i], sample_name(file));
      }
    }
  }

  void open_shards() {
    for_each_shard([&](Process& loader, NameIndex path) {
      loader.call(
          {.call = wire::Call::kOpen, .file = path, .result = 9, .detail = O_RDONLY | O_CLOEXEC},
          noisy(60'000));
      loader.call({.call = wire::Call::kFstat, .file = path}, noisy(500));
    });
  }

  void close_shards() {
    for_each_shard([&](Process& loader, NameIndex path) {
      loader.call({.call = wire::Call::kClose, .file = path}, noisy(600));
    });
  }

  void checkpoint(uint64_t epoch) {
    Process& writing = trainer();
    const uint64_t begin_ns = writing.now_ns;
    const NameIndex path = name(fmt::format("/data/checkpoints/epoch{:03}.pt", epoch));
    const NameIndex partial = name(fmt::format("/data/checkpoints/epoch{:03}.pt.tmp", epoch));
    writing.call({.call = wire::Call::kAccess, .file = path, .result = -1, .error = ENOENT},
                 noisy(3'000));
    writing.call({.call = wire::Call::kOpen,
                  .file = partial,
                  .result = 9,
                  .detail = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC},
                 noisy(120'000));
    for (uint64_t i = 0; i < kCheckpointWrites; ++i) {
      writing.call({.call = wire::Call::kWrite,
                    .file = partial,
                    .offset = i * kCheckpointWriteBytes,
                    .size = kCheckpointWriteBytes,
                    .result = static_cast<int64_t>(kCheckpointWriteBytes)},
                   noisy(1'500'000));
    }
    writing.call({.call = wire::Call::kFsync, .file = partial}, noisy(200'000'000));
    writing.call({.call = wire::Call::kClose, .file = partial}, noisy(2'000));
    writing.call({.call = wire::Call::kRename, .file = partial, .other_file = path}, noisy(30'000));
    writing.region(regions_.checkpoint, begin_ns, epoch, options_.steps - 1);
  }

  uint64_t noisy(uint64_t typical_ns) { return trace::noisy_ns(random_, typical_ns); }

  const Options& options_;
  uint64_t rank_;
  Names* names_;
  std::vector<Process>& processes_;
  Random random_;
  std::vector<uint64_t> taken_ns_;  // when the trainer took the batches of the last steps
  RegionNames regions_{};
};

uint64_t start_of(uint64_t rank, size_t process) {
  return kStartNs + rank * 1'000'000 + process * 30'000'000;
}

// Runs a rank twice: first to find the ends of its processes, then to write its events.
Result<uint64_t> write_rank(const Options& options, uint64_t rank, TraceWriter& writer,
                            Names& names) {
  const size_t process_count = 1 + options.workers;
  std::vector<Process> rehearsal;
  for (size_t i = 0; i < process_count; ++i) rehearsal.emplace_back(start_of(rank, i));
  RankRun(options, rank, nullptr, rehearsal).run();
  const auto first_pid =
      static_cast<uint32_t>(10'000 + rank % options.ranks_per_host * (process_count + 1));
  std::vector<Process> processes;
  for (size_t i = 0; i < process_count; ++i) {
    const auto pid = first_pid + static_cast<uint32_t>(i);
    const auto process = writer.add_process(
        {.pid = pid,
         .parent_pid = i == 0 ? 1 : first_pid,
         .rank = static_cast<int32_t>(rank),
         .world_size = static_cast<int32_t>(options.ranks),
         .origin = i == 0 ? wire::ProcessOrigin::kProgram : wire::ProcessOrigin::kFork,
         .start_ns = start_of(rank, i),
         .end_ns = rehearsal[i].now_ns,
         .exited = true,
         .executable = names("/usr/bin/python3"),
         .command_line = names("python3 train.py"),
         .working_directory = names("/data/job")});
    const ThreadIndex thread = writer.add_thread({.process = process, .tid = pid});
    processes.emplace_back(start_of(rank, i), writer, thread);
  }
  RankRun(options, rank, &names, processes).run();
  uint64_t event_count = 0;
  for (Process& process : processes) {
    RETURN_IF_ERROR(process.flush());
    event_count += process.event_count;
  }
  return event_count;
}

Result<uint64_t> write_host(const Options& options, uint64_t host) {
  const std::string name = fmt::format("node{:03}", host + 1);
  const std::string path = fmt::format("{}/{}.mrt", options.directory, name);
  ASSIGN_OR_RETURN(TraceWriter writer, TraceWriter::create(path, kOriginWallNs));
  writer.add_session({.host = name,
                      .boot_id = fmt::format("00000000-0000-0000-0000-{:012}", host + 1),
                      .launcher_pid = 9000,
                      .levels = 1u << static_cast<unsigned>(wire::Level::kPosix) |
                                1u << static_cast<unsigned>(wire::Level::kApp)});
  Names names(writer, options);
  uint64_t event_count = 0;
  const uint64_t first_rank = host * options.ranks_per_host;
  const uint64_t end_rank = std::min(options.ranks, first_rank + options.ranks_per_host);
  for (uint64_t rank = first_rank; rank < end_rank; ++rank) {
    ASSIGN_OR_RETURN(const uint64_t count, write_rank(options, rank, writer, names));
    event_count += count;
  }
  RETURN_IF_ERROR(writer.finish());
  return event_count;
}

Result<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  const uint64_t factor = suffix.empty()  ? 1
                          : suffix == "k" ? 1'000
                          : suffix == "M" ? 1'000'000
                          : suffix == "G" ? 1'000'000'000
                                          : 0;
  if (error != std::errc() || factor == 0 || value > UINT64_MAX / 1'000'000'000) {
    return fail(Errc::kInvalidArgument, "'{}' is not a number; expected, for example, 1000 or 100M",
                printable(text));
  }
  return value * factor;
}

Status set_option(Options& options, std::string_view name, std::string_view value) {
  if (name == "--shape") {
    options.records = value == "records";
    if (options.records || value == "small") return {};
    return fail(Errc::kInvalidArgument, "--shape must be small or records");
  }
  const struct {
    std::string_view name;
    uint64_t& number;
    uint64_t least;
  } numbers[] = {
      {"--events", options.events, 1},
      {"--ranks", options.ranks, 1},
      {"--ranks-per-host", options.ranks_per_host, 1},
      {"--workers", options.workers, 0},
      {"--epochs", options.epochs, 1},
      {"--steps", options.steps, 1},
      {"--files", options.files, 1},
      {"--seed", options.seed, 0},
  };
  for (const auto& known : numbers) {
    if (known.name != name) continue;
    ASSIGN_OR_RETURN(known.number, parse_number(value).within(name));
    if (known.number >= known.least) return {};
    return fail(Errc::kInvalidArgument, "{} must be at least {}", name, known.least);
  }
  return fail(Errc::kInvalidArgument,
              "unknown option {}; the first lines of the source list all options", printable(name));
}

Result<Options> parse_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with("--")) {
      options.directory = argument;
      continue;
    }
    if (i + 1 == count) return fail(Errc::kInvalidArgument, "{} needs a value", argument);
    RETURN_IF_ERROR(set_option(options, argument, arguments[++i]));
  }
  if (options.directory.empty()) return fail(Errc::kInvalidArgument, "no directory was given");
  settle(options);
  return options;
}

Result<std::string> generate(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  const uint64_t host_count = (options.ranks + options.ranks_per_host - 1) / options.ranks_per_host;
  uint64_t event_count = 0;
  for (uint64_t host = 0; host < host_count; ++host) {
    ASSIGN_OR_RETURN(const uint64_t count, write_host(options, host));
    event_count += count;
  }
  uint64_t size_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options.directory, error)) {
    size_bytes += entry.file_size(error);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return fmt::format(
      "{}: {} events, {} processes, {} files, {} steps of {} samples in each of {} epochs, {} in "
      "{:.1f} s\n",
      printable(options.directory), format_exact(event_count),
      format_exact(options.ranks * (1 + options.workers)), format_exact(options.files),
      format_exact(options.steps), options.batch, options.epochs, format_bytes(size_bytes),
      spent.count());
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  const auto options = bench::parse_options(argc, argv);
  if (!options.ok()) {
    fmt::print(stderr, "bench_trace_generate: {}\n", options.error().message());
    return 2;
  }
  const auto summary = bench::generate(*options);
  if (!summary.ok()) {
    fmt::print(stderr, "bench_trace_generate: {}\n", summary.error().message());
    return 1;
  }
  fmt::print("{}", *summary);
  return 0;
}
