// What a remote read of the store costs between two hosts, compared with plain MPI in the same run:
// the bandwidth with 16 reads in flight, and the time of one read, idle and with all cores busy.
//
// usage: mpirun -np 2 bench_store_remote        (one rank a host; see docs/measurements.md)
//
// The program initializes MPI itself, for the floor. Our bytes are compared with their checksum;
// those of MPI are not.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/hash/crc32c.h"
#include "base/system/clock.h"
#include "base/system/cpus.h"
#include "benchmarks/measure.h"
#include "comm/connect.h"
#include "store/peers/peers.h"

namespace millrace::bench {
namespace {

using store::PeerAnswer;
using store::Peers;

constexpr size_t kInFlight = 16;
constexpr int kRounds = 3;
constexpr wire::PeerKind kRead{1000};
constexpr comm::Rank kHolder{1};

struct Ranks {
  comm::Comm& comm;
  Peers& peers;

  bool asks() const { return comm.rank() == comm::kFirstRank; }
  void meet() const { keep(comm.barrier().ok()); }  // sleeps, unlike MPI_Barrier
};

double seconds_since(std::chrono::nanoseconds begin) {
  return std::chrono::duration<double>(monotonic_now() - begin).count();
}

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// ---- bandwidth ----

// One direction: the holder sends, 16 messages at a time.
double mpi_bandwidth(const Ranks& ranks, size_t size_bytes, size_t count) {
  std::vector<std::vector<char>> buffers(kInFlight, std::vector<char>(size_bytes));
  std::vector<MPI_Request> requests(kInFlight);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    ranks.meet();
    const auto begin = monotonic_now();
    for (size_t done = 0; done < count; done += kInFlight) {
      for (size_t i = 0; i < kInFlight; ++i) {
        const int size = static_cast<int>(size_bytes);
        if (ranks.asks()) {
          MPI_Irecv(buffers[i].data(), size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        } else {
          MPI_Isend(buffers[i].data(), size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
      }
      MPI_Waitall(static_cast<int>(kInFlight), requests.data(), MPI_STATUSES_IGNORE);
    }
    best = std::max(best, static_cast<double>(size_bytes * count) / seconds_since(begin));
  }
  return best;
}

bool read_once(const Ranks& ranks, size_t size_bytes, uint32_t wanted) {
  const uint64_t question = size_bytes;
  bool is_right = false;
  const Status status = ranks.peers.ask_all(
      kHolder, kRead,
      {.count = 1,
       .question = [&](uint64_t) { return std::as_bytes(std::span(&question, 1)); },
       .take = [&](uint64_t, ByteView bytes) -> Status {
         is_right = crc32c(bytes) == wanted;
         return {};
       }});
  return status.ok() && is_right;
}

double our_bandwidth(const Ranks& ranks, size_t size_bytes, size_t count, uint32_t checksum) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    ranks.meet();
    if (!ranks.asks()) continue;
    const auto begin = monotonic_now();
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kInFlight; ++i) {
      threads.emplace_back([&] {
        while (next++ < count) keep(read_once(ranks, size_bytes, checksum));
      });
    }
    for (std::thread& thread : threads) thread.join();
    best = std::max(best, static_cast<double>(size_bytes * count) / seconds_since(begin));
  }
  ranks.meet();
  return best;
}

// ---- the time of one read ----

double mpi_time(const Ranks& ranks, size_t size_bytes, int count) {
  std::vector<char> bytes(size_bytes);
  const int size = static_cast<int>(size_bytes);
  char question[64] = {};
  std::vector<double> times;
  ranks.meet();
  for (int i = 0; i < count; ++i) {
    const auto begin = monotonic_now();
    if (ranks.asks()) {
      MPI_Send(question, sizeof(question), MPI_BYTE, 1, 2, MPI_COMM_WORLD);
      MPI_Recv(bytes.data(), size, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(question, sizeof(question), MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(bytes.data(), size, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
    times.push_back(seconds_since(begin) * 1e6);
  }
  return median_of(times);
}

double our_time(const Ranks& ranks, size_t size_bytes, int count, uint32_t checksum) {
  std::vector<double> times = {0};
  ranks.meet();
  for (int i = 0; i < count && ranks.asks(); ++i) {
    const auto begin = monotonic_now();
    keep(read_once(ranks, size_bytes, checksum));
    times.push_back(seconds_since(begin) * 1e6);
  }
  ranks.meet();
  return median_of(times);
}

// Threads that compute, one for each core of this machine.
class BusyCores {
 public:
  explicit BusyCores(bool is_busy) {
    for (size_t i = 0; is_busy && i < usable_cpu_count(); ++i) {
      threads_.emplace_back([this] {
        for (uint64_t n = 0; !is_ending_.load(std::memory_order_relaxed); ++n) keep(n * n);
      });
    }
  }
  ~BusyCores() {
    is_ending_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_ending_ = false;
  std::vector<std::thread> threads_;
};

void print_row(const Ranks& ranks, const std::string& name, double floor, double ours) {
  if (ranks.asks())
    fmt::print("{:<36} {:>10.0f} {:>10.0f} {:>8.2f}\n", name, floor, ours, ours / floor);
}

void measure(const Ranks& ranks, const std::string& content) {
  if (ranks.asks()) fmt::print("{:<36} {:>10} {:>10} {:>8}\n", "", "MPI", "store", "ratio");
  for (const size_t size_bytes : {size_t{128} << 10, size_t{1} << 20}) {
    const uint32_t checksum = crc32c(bytes_of(content).first(size_bytes));
    const size_t count = (size_t{256} << 20) / size_bytes;
    const std::string name = fmt::format("{} KB, 16 in flight, MB/s", size_bytes >> 10);
    const double floor = mpi_bandwidth(ranks, size_bytes, count) / 1e6;
    print_row(ranks, name, floor, our_bandwidth(ranks, size_bytes, count, checksum) / 1e6);
  }
  const size_t size_bytes = 128 << 10;
  const uint32_t checksum = crc32c(bytes_of(content).first(size_bytes));
  for (const bool is_busy : {false, true}) {
    const BusyCores busy(is_busy && ranks.asks());
    const double floor = mpi_time(ranks, size_bytes, 1000);
    print_row(ranks, is_busy ? "128 KB, cores busy, median us" : "128 KB, idle, median us", floor,
              our_time(ranks, size_bytes, 1000, checksum));
  }
}

Status run() {
  ASSIGN_OR_RETURN(const auto comm, comm::connect());
  if (comm->size() != 2) return fail(Errc::kInvalidArgument, "start two ranks, one a host");
  store::PeersOptions options;
  ASSIGN_OR_RETURN(options.listener, store::listen_for_peers());
  std::string place = place_text(store::place_of(options.listener));
  place = fmt::format("r{}{}", comm::index_of(comm->rank()), place);  // both may be on one host
  ASSIGN_OR_RETURN(options.table, store::exchange_places(*comm, place, ""));
  options.own = comm->rank();
  Peers peers(std::move(options));
  const std::string content(1 << 20, 'c');
  peers.serve(kRead, [&](comm::Rank, ByteView question) -> Result<PeerAnswer> {
    uint64_t size_bytes = 0;
    std::copy_n(question.data(), std::min(sizeof(size_bytes), question.size()),
                reinterpret_cast<std::byte*>(&size_bytes));
    return PeerAnswer{
        .bytes = {}, .view = bytes_of(content).first(std::min<size_t>(size_bytes, content.size()))};
  });
  RETURN_IF_ERROR(peers.start());
  measure({*comm, peers}, content);
  return {};
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  const auto status = millrace::bench::run();
  if (!status.ok()) fmt::print(stderr, "bench_store_remote: {}\n", status.error().message());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
