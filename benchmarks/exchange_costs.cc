// What the exchange of partial local shuffling costs: milliseconds per sample of 100 KB between two
// ranks, and the share of it that overlaps with 300 ms of compute.
//
//   mpirun -np 2 bench_exchange_costs [DIRECTORY]
//
// The ranks make their storages in DIRECTORY (by default the temporary directory), as if each were
// on its own host. Back to back: epochs without compute, so that ranks wait for the whole exchange.
// Overlapped: epochs with 300 ms of compute in ten iterations, which keep one core per rank busy.
// The target is 0.1 ms per sample, and 95 % overlapped. CPU is the time of the whole process, back
// to back, including the time to make the epoch durable; it is meaningful even if other jobs load
// the machine.
//
// The floor is what the bytes need at least: read a sample from a file, send it with MPI without a
// thread in between, and write the peer's sample to a file, all with reused memory; no checksum, no
// ownership, no plan. The program itself initializes MPI for this.
#include <fcntl.h>
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "base/system/clock.h"
#include "comm/connect.h"
#include "comm/messages.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/settle.h"
#include "loader/order/shards.h"

namespace millrace::bench {
namespace {

using namespace std::chrono_literals;
using namespace millrace::loader::exchange;

constexpr uint64_t kSampleBytes = 100'000;
constexpr uint64_t kSamplesPerRank = 2560;
constexpr double kFraction = 0.2;  // with two ranks, half of these stay on their rank
constexpr int kRounds = 7;

double ms(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

void compute(std::chrono::nanoseconds time) {
  const auto end = monotonic_now() + time;
  volatile double value = 1;
  while (monotonic_now() < end) {
    for (int i = 0; i < 1000; ++i) value = std::sqrt(value + 1);
  }
}

Status stage(ShardStorage& storage, comm::Comm& comm) {
  const StorageOptions& options = storage.options();
  const loader::order::Shards shards(options.order.sample_count, options.order.shard_count);
  std::string bytes(kSampleBytes, '\0');
  Random random(options.rank);
  const auto put_all = [&]() -> Status {
    for (uint64_t slot = 0; slot < storage.slot_count(); ++slot) {
      for (size_t i = 0; i < bytes.size(); i += 8) bytes[i] = static_cast<char>(random.next());
      RETURN_IF_ERROR(storage.stage(slot, shards.at_home({.shard = options.rank, .index = slot}),
                                    bytes_of(bytes)));
    }
    return storage.prepare(data::Epoch{0});
  };
  return commit_together(storage, comm, put_all());
}

// The parts of the floor, in milliseconds per sample.
struct Floor {
  double read = 0;
  double send = 0;  // and receive
  double write = 0;

  double sum() const { return read + send + write; }
};

// One window of samples, as many as a message of the exchange holds.
constexpr uint64_t kWindow = Plan::kSamplesPerMessage;

void trade(int peer, std::string& mine, std::string& theirs) {
  std::vector<MPI_Request> requests(2 * kWindow);
  for (uint64_t i = 0; i < kWindow; ++i) {
    MPI_Irecv(theirs.data() + i * kSampleBytes, kSampleBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
              &requests[i]);
  }
  for (uint64_t i = 0; i < kWindow; ++i) {
    MPI_Isend(mine.data() + i * kSampleBytes, kSampleBytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
              &requests[kWindow + i]);
  }
  MPI_Waitall(2 * kWindow, requests.data(), MPI_STATUSES_IGNORE);
}

// Uses files as large as the storages. REQUIRES: two ranks
Result<Floor> floor_costs(const std::filesystem::path& directory, int peer) {
  ASSIGN_OR_RETURN(const File file, File::open(directory / "floor", O_RDWR | O_CREAT | O_TRUNC));
  std::string mine(kWindow * kSampleBytes, 'x');
  std::string theirs = mine;
  for (uint64_t first = 0; first < kSamplesPerRank; first += kWindow) {
    RETURN_IF_ERROR(file.write_at(first * kSampleBytes, bytes_of(mine)));
  }
  Floor best{.read = 1e9};
  for (int round = 0; round < kRounds; ++round) {
    Floor now;
    const auto add = [](double& part, const auto& work) -> Status {
      const auto begin = monotonic_now();
      RETURN_IF_ERROR(work());
      part += ms(monotonic_now() - begin) / kSamplesPerRank;
      return {};
    };
    for (uint64_t first = 0; first < kSamplesPerRank; first += kWindow) {
      const uint64_t at = first * kSampleBytes;
      const auto in = std::as_writable_bytes(std::span(mine));
      RETURN_IF_ERROR(add(now.read, [&] { return file.read_exactly_at(at, in); }));
      RETURN_IF_ERROR(add(now.send, [&] { return trade(peer, mine, theirs), Status(); }));
      RETURN_IF_ERROR(add(now.write, [&] { return file.write_at(at, bytes_of(theirs)); }));
    }
    if (now.sum() < best.sum()) best = now;
  }
  return best;
}

// Runs one epoch, and returns what it added to the stats.
struct Cost {
  double moving_ms_per_sample = 0;
  double cpu_ms_per_sample = 0;  // of the whole process, for both directions
  double preparing_ms = 0;
  double overlapped = 0;
  double agreeing_ms = 0;
};

Result<Cost> epoch_cost(Exchange& exchange, int iterations) {
  const Stats before = exchange.stats();
  const auto cpu_before = process_cpu_time();
  RETURN_IF_ERROR(exchange.start());
  for (int i = 0; i < iterations; ++i) {
    // The samples of an iteration may move while it computes.
    RETURN_IF_ERROR(
        exchange.advance(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(iterations)));
    compute(30ms);
  }
  RETURN_IF_ERROR(exchange.finish());
  const Stats after = exchange.stats();
  const auto samples = static_cast<double>(after.samples_sent - before.samples_sent);
  const double worked = ms(after.moving - before.moving + after.preparing - before.preparing);
  return Cost{
      .moving_ms_per_sample = ms(after.moving - before.moving) / samples,
      .cpu_ms_per_sample = ms(process_cpu_time() - cpu_before - iterations * 30ms) / samples,
      .preparing_ms = ms(after.preparing - before.preparing),
      .overlapped = 1 - ms(after.waited - before.waited) / worked,
      .agreeing_ms = ms(after.agreeing - before.agreeing)};
}

Status measure(comm::Comm& comm, const std::filesystem::path& directory) {
  if (comm.size() != 2) {
    return fail(Errc::kInvalidArgument, "there are {} ranks; start it with mpirun -np 2",
                comm.size());
  }
  const uint32_t rank = comm::index_of(comm.rank());
  ASSIGN_OR_RETURN(const auto storage,
                   ShardStorage::open({.directory = directory / "storage",
                                       .order = {.shuffle = loader::order::Shuffle::kPartial,
                                                 .sample_count = kSamplesPerRank * comm.size(),
                                                 .seed = 1,
                                                 .shard_count = comm.size(),
                                                 .fraction = kFraction},
                                       .rank = rank}));
  RETURN_IF_ERROR(settle(*storage, comm));
  RETURN_IF_ERROR(stage(*storage, comm));
  ASSIGN_OR_RETURN(const auto messages, comm.open_messages());
  ASSIGN_OR_RETURN(const Floor floor, floor_costs(directory, rank == 0 ? 1 : 0));
  Exchange exchange(comm, *messages, *storage);
  if (rank == 0) {
    fmt::print("floor {:.3f} ms per sample: read {:.3f}, plain MPI {:.3f}, write {:.3f}\n",
               floor.sum(), floor.read, floor.send, floor.write);
    fmt::print(
        "              ms per sample   ratio   CPU ms   durable ms   agreeing ms  overlap\n");
  }
  for (const int iterations : {0, 10}) {
    Cost best{.moving_ms_per_sample = 1e9};
    std::vector<double> overlapped;
    for (int round = 0; round < kRounds; ++round) {
      ASSIGN_OR_RETURN(const Cost cost, epoch_cost(exchange, iterations));
      if (cost.moving_ms_per_sample < best.moving_ms_per_sample) best = cost;
      overlapped.push_back(cost.overlapped);
    }
    std::ranges::sort(overlapped);
    if (rank != 0) continue;
    const std::string cpu = iterations == 0 ? fmt::format("{:.3f}", best.cpu_ms_per_sample) : "";
    fmt::print("{:14} {:12.3f} {:7.1f} {:>8} {:12.2f} {:13.2f} {:7.1f}%\n",
               iterations == 0 ? "back to back" : "with compute", best.moving_ms_per_sample,
               best.moving_ms_per_sample / floor.sum(), cpu, best.preparing_ms, best.agreeing_ms,
               100 * overlapped[overlapped.size() / 2]);
  }
  return {};
}

int run(const std::filesystem::path& parent) {
  auto comm = comm::connect();
  if (!comm.ok()) {
    fmt::print(stderr, "bench_exchange_costs: {}\n", comm.error().message());
    return 1;
  }
  const auto directory = TemporaryDirectory::create(parent);
  const Status status = (*comm)->agree(directory.ok() ? measure(**comm, directory->path())
                                                      : Status(directory.error()));
  if (status.ok()) return 0;
  if ((*comm)->speaks()) {
    fmt::print(stderr, "bench_exchange_costs: {}\n", status.error().message());
  }
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int count, char** words) {
  int provided = 0;
  MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
  const int code =
      millrace::bench::run(count > 1 ? words[1] : std::filesystem::temp_directory_path());
  MPI_Finalize();
  return code;
}
