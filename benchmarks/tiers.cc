// What tiers gain over a slow source: samples per second, epoch by epoch, with and without them.
//
//   bench_tiers [DIRECTORY]     for the disk tier, by default "."
//
// The source takes 2 ms to return 100 kB, like a busy shared file system. Four threads read it,
// like those of a loader. Ranks are threads of this process.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/system/clock.h"
#include "base/system/terminal.h"
#include "base/text/table.h"
#include "benchmarks/measure.h"
#include "benchmarks/must.h"
#include "comm/testing/threads.h"
#include "loader/tiers/tiered_source.h"

namespace millrace::bench {
namespace {

using namespace std::chrono_literals;
using data::Epoch;
using data::SampleId;
using loader::tiers::Tier;
using loader::tiers::TieredSource;

constexpr uint64_t kSamples = 2'000;
constexpr size_t kSampleBytes = 100'000;
constexpr uint64_t kEpochs = 4;
constexpr size_t kThreads = 4;
constexpr uint64_t kAllBytes = kSamples * (kSampleBytes + loader::tiers::Memory::kEntryBytes);

class SlowSource final : public data::SampleSource {
 public:
  uint64_t sample_count() const override { return kSamples; }
  std::string name(SampleId sample) const override {
    return fmt::format("sample {}", data::index_of(sample));
  }
  std::optional<int64_t> label(SampleId) const override { return std::nullopt; }
  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    const MutableByteView place = room.room(kSampleBytes);
    must(read_into(sample, place));
    return ByteView(place);
  }
  Result<size_t> read_into(SampleId sample, MutableByteView out) const override {
    std::this_thread::sleep_for(2ms);
    std::memset(out.data(), static_cast<int>(data::index_of(sample) % 256), kSampleBytes);
    return kSampleBytes;
  }
  uint64_t group_count() const override { return 1; }
  SampleId group_begin(uint64_t group) const override { return SampleId{group * kSamples}; }
};

// One epoch of one rank.
void read_epoch(const data::SampleSource& source, const loader::tiers::Options& options,
                Epoch epoch) {
  source.start_epoch(epoch, 0);
  std::atomic<uint64_t> next = options.world.rank;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      data::Buffer room;
      for (uint64_t at = next.fetch_add(options.world.size); at < kSamples;
           at = next.fetch_add(options.world.size)) {
        const SampleId sample = options.order->at(epoch, at);
        const ByteView bytes = must(source.read(sample, room));
        if (bytes.size() != kSampleBytes ||
            bytes[7] != static_cast<std::byte>(data::index_of(sample) % 256)) {
          std::abort();
        }
      }
    });
  }
}

struct Outcome {
  std::vector<double> per_second;                             // of all ranks, by epoch
  std::array<uint64_t, loader::tiers::kTierCount> samples{};  // of all ranks, by tier
};

void run_rank(loader::tiers::Options options, comm::Comm& comm, bool has_peers, Outcome& outcome,
              std::mutex& mutex) {
  const std::shared_ptr<comm::Messages> messages = must(comm.open_messages());
  if (has_peers) options.messages = messages;
  const auto tiered = must(TieredSource::open(options));
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    if (!comm.barrier().ok()) std::abort();
    const auto start = monotonic_now();
    read_epoch(*tiered, options, Epoch{epoch});
    if (!comm.barrier().ok()) std::abort();
    const std::chrono::duration<double> took = monotonic_now() - start;
    if (options.world.rank == 0) outcome.per_second.push_back(kSamples / took.count());
  }
  const loader::tiers::Stats stats = tiered->stats();
  {
    const std::lock_guard lock(mutex);
    for (const Tier tier : loader::tiers::kTiers) {
      outcome.samples[static_cast<size_t>(tier)] += stats.of(tier).samples;
    }
  }
  if (!comm.barrier().ok()) std::abort();
}

Outcome run(const loader::tiers::Options& options, uint32_t rank_count, bool has_peers) {
  Outcome outcome;
  std::mutex mutex;
  auto ranks = comm::threads_comm(rank_count);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    loader::tiers::Options own = options;
    own.world = {rank, rank_count};
    threads.emplace_back([&, own, comm = std::move(ranks[rank])] {
      run_rank(own, *comm, has_peers, outcome, mutex);
    });
  }
  threads.clear();
  return outcome;
}

struct Trial {
  std::string name;
  uint32_t rank_count;
  bool has_peers;
  uint64_t memory_bytes;  // per rank
  uint64_t disk_bytes;    // per rank
};

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  using namespace millrace::bench;
  const std::shared_ptr<const loader::order::Order> order =
      must(loader::order::make_order({.sample_count = kSamples, .seed = 1}));
  const Trial trials[] = {
      {"1 rank: no tiers", 1, false, 0, 0},
      {"1 rank: memory for half", 1, false, kAllBytes / 2, 0},
      {"1 rank: memory for all", 1, false, kAllBytes, 0},
      {"1 rank: memory for a quarter, disk for all", 1, false, kAllBytes / 4, 2 * kAllBytes},
      {"2 ranks: no tiers", 2, false, 0, 0},
      {"2 ranks: memory for half each, no peers", 2, false, kAllBytes / 2, 0},
      {"2 ranks: memory for half each, peers", 2, true, kAllBytes / 2, 0},
  };
  using enum Table::Align;
  Table table({{.title = "samples per second, by epoch"},
               {.title = "1st", .align = kRight},
               {.title = "2nd", .align = kRight},
               {.title = "3rd", .align = kRight},
               {.title = "4th", .align = kRight},
               {.title = "memory, disk, peer, source"}});
  for (const Trial& trial : trials) {
    const Outcome outcome = run({.source = std::make_shared<SlowSource>(),
                                 .order = order,
                                 .epoch_limit = kEpochs + 1,
                                 .memory_bytes = trial.memory_bytes,
                                 .disk_bytes = trial.disk_bytes,
                                 .disk_directory = argc > 1 ? argv[1] : ".",
                                 .tag = comm::MessageTag{1}},
                                trial.rank_count, trial.has_peers);
    std::vector<Table::Cell> row = {trial.name};
    for (const double speed : outcome.per_second) row.emplace_back(fmt::format("{:.0f}", speed));
    row.emplace_back(fmt::format("{}, {}, {}, {}", outcome.samples[0], outcome.samples[1],
                                 outcome.samples[2], outcome.samples[3]));
    table.add_row(row);
  }
  fmt::print("{}", table.render(inspect_terminal(1)));
  return 0;
}
