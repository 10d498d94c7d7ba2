// few-reads-in-flight: low read concurrency on storage that could serve several reads at once.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"

namespace millrace::advise {
namespace {

// Mean over the ranks that read data, each while it had any I/O call in flight.
double reads_in_flight(const Case& given) {
  double sum = 0;
  uint64_t count = 0;
  for (const analyze::RankLoad& rank : given.profile.ranks) {
    if (rank.data_bytes_read == 0 || rank.calls_in_flight <= 0) continue;
    sum += rank.calls_in_flight;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

constexpr double kInFlightMax = 1.5;

Finding few_reads_in_flight_text(const Case& given, double in_flight, uint64_t reading_ns) {
  return {
      .kind = "low read concurrency",
      .details = fmt::format("{:.1f} reads in flight", in_flight),
      .evidence = {at("ranks", "while a rank reads, it has {:.2f} reads in flight on average",
                      in_flight),
                   at("functions", "a read takes {}, and training waits {} for reads ({})",
                      duration(given.io.read_ns / given.io.reads), duration(reading_ns),
                      given.waiting.part(reading_ns))},
      .threshold =
          "fewer than 1.5 reads in flight, of 50 us or more each: such a read waits for a device "
          "or a server, which can serve 8 to 64 reads at once almost as fast as one",
      .changes =
          {{"pytorch",
            "add workers: DataLoader(..., num_workers=N), each keeps one read in flight; start "
            "with 4 per rank, and use at most the cores of the rank"},
           {"tf.data",
            "read in parallel: Dataset.interleave(..., cycle_length=8, "
            "num_parallel_calls=tf.data.AUTOTUNE) over the files, and map(..., "
            "num_parallel_calls=tf.data.AUTOTUNE)"},
           {"hdf5",
            "read from several processes, one file each: within a process, HDF5 runs one call at a "
            "time"},
           {"loader", "use millrace.DataLoader: it keeps many reads in flight from one process"}},
      .gain = {
          .how =
              given.may_serve_one
                  ? "a device that takes 2 ms and longer may serve one read at a time, and the trace "
                    "does not show more"
                  : "the waiting for reads that 4 reads in flight would save if the storage kept "
                    "its latency"}};
}

}  // namespace

bool reads_behind_lock(const Case& given) {
  const double in_flight = reads_in_flight(given);
  return in_flight > 0 && in_flight < kInFlightMax &&
         std::any_of(
             given.profile.ranks.begin(), given.profile.ranks.end(),
             [&](const auto& rank) {
               return rank.threads_reading > 2 * (given.loading.threads + 1);
             });
}

Judged judge_few_reads_in_flight(const Case& given) {
  constexpr double kInFlightWanted = 4;
  constexpr uint64_t kLatencyMin = 50'000;  // ns; shorter reads came from the page cache
  const double in_flight = reads_in_flight(given);
  if (in_flight <= 0 || in_flight >= kInFlightMax || given.io.reads < kCallsMin) return {};
  if (given.machine.data_storage == Storage::kMemory) return {};
  if (given.waiting.share(given.waiting.io_ns) < kWaitShareMin) return {};
  const uint64_t latency_ns = given.io.read_ns / given.io.reads;
  // More readers do not make copying faster.
  if (latency_ns < kLatencyMin ||
      time_at(given.io.bytes_read, kCacheBytesPerSecond) > given.io.read_ns / 2) {
    return {};
  }
  const uint64_t reading_ns = given.waiting.due_to(given.io.read_ns);
  const uint64_t saved_ns = scaled(reading_ns, 1 - in_flight / kInFlightWanted);
  if (!given.waiting.matters(saved_ns)) return {};
  return given.may_serve_one
             ? less_by_unknown(few_reads_in_flight_text(given, in_flight, reading_ns))
             : less_waiting(given.waiting, saved_ns,
                            few_reads_in_flight_text(given, in_flight, reading_ns));
}

}  // namespace millrace::advise
