// few-reads-in-flight: low read concurrency on storage that could serve several reads at once.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Mean over the ranks that read data, each while it had any I/O call in flight.
double reads_in_flight(const analyze::Profile& profile) {
  double sum = 0;
  uint64_t count = 0;
  for (const analyze::RankLoad& rank : profile.ranks) {
    if (rank.data_bytes_read == 0 || rank.calls_in_flight <= 0) continue;
    sum += rank.calls_in_flight;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

constexpr double kInFlightMax = 1.5;

}  // namespace

bool reads_behind_lock(const analyze::Profile& profile) {
  const double in_flight = reads_in_flight(profile);
  return in_flight > 0 && in_flight < kInFlightMax &&
         std::any_of(
             profile.ranks.begin(), profile.ranks.end(),
             [&](const auto& rank) {
               return rank.threads_reading > 2 * (profile.loading.threads + 1);
             });
}

Judged judge_few_reads_in_flight(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kInFlightWanted = 4;
  constexpr uint64_t kLatencyMin = 50'000;  // ns; shorter reads came from the page cache
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  const double in_flight = reads_in_flight(profile);
  if (in_flight <= 0 || in_flight >= kInFlightMax || io.reads < kCallsMin) return {};
  if (machine.data_storage == Storage::kMemory) return {};
  if (waiting.share(waiting.io_ns) < kWaitShareMin) return {};
  const uint64_t latency_ns = io.read_ns / io.reads;
  // More readers do not make copying faster.
  if (latency_ns < kLatencyMin || time_at(io.bytes_read, kCacheBytesPerSecond) > io.read_ns / 2) {
    return {};
  }
  const uint64_t reading_ns = waiting.due_to(io.read_ns);
  const uint64_t saved_ns = scaled(reading_ns, 1 - in_flight / kInFlightWanted);
  if (!waiting.matters(saved_ns)) return {};
  const bool serves_one = may_serve_one(profile, machine);
  Finding finding;
  finding.title = fmt::format("low read concurrency: {:.1f} reads in flight", in_flight);
  finding.evidence = {
      {fmt::format("while a rank reads, it has {:.2f} reads in flight on average", in_flight),
       "ranks"},
      {fmt::format("a read takes {}, and training waits {} for reads ({})", duration(latency_ns),
                   duration(reading_ns), waiting.part(reading_ns)),
       "functions"}};
  finding.threshold =
      "fewer than 1.5 reads in flight, of 50 us or more each: such a read waits for a device or a "
      "server, which can serve 8 to 64 reads at once almost as fast as one";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "add workers: DataLoader(..., num_workers=N), each keeps one read in flight; start "
              "with 4 per rank, and use at most the cores of the rank")
          .tf_data(
              "read in parallel: Dataset.interleave(..., cycle_length=8, "
              "num_parallel_calls=tf.data.AUTOTUNE) over the files, and map(..., "
              "num_parallel_calls=tf.data.AUTOTUNE)")
          .hdf5(
              "read from several processes, one file each: within a process, HDF5 runs one call at "
              "a time")
          .loader("use millrace.DataLoader: it keeps many reads in flight from one process")
          .take();
  finding.gain =
      serves_one
          ? unknown_gain(
                "a device that takes 2 ms and longer may serve one read at a time, and the trace "
                "does not show more")
          : gain_of(waiting, saved_ns,
                    "the waiting for reads that 4 reads in flight would save if the storage "
                    "kept its latency");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
