// few-reads-in-flight: one read at a time, where the storage could serve several.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

// Mean over the ranks that read data, each while any read of it was under way.
double reads_in_flight(const analyze::Profile& profile) {
  double sum = 0;
  uint64_t count = 0;
  for (const analyze::RankLoad& rank : profile.ranks) {
    if (rank.data_bytes_read == 0 || rank.reads_in_flight <= 0) continue;
    sum += rank.reads_in_flight;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

Judged judge_few_reads_in_flight(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kInFlightMax = 1.5;
  constexpr double kInFlightWanted = 4;
  constexpr uint64_t kLatencyMin = 50'000;  // ns; shorter ones came from the page cache
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  const double in_flight = reads_in_flight(profile);
  if (in_flight <= 0 || in_flight >= kInFlightMax || io.reads < kCallsMin) return {};
  if (machine.data_storage == Storage::kMemory) return {};
  if (!waiting.matters(io.read_ns) || waiting.share(waiting.io_ns) < kWaitShareMin) return {};
  const uint64_t latency_ns = io.read_ns / io.reads;
  // More readers do not make copying quicker.
  if (latency_ns < kLatencyMin || time_at(io.bytes_read, kCacheBytesPerSecond) > io.read_ns / 2) {
    return {};
  }
  const uint64_t reading_ns = waiting.due_to(io.read_ns);
  const uint64_t saved_ns = scaled(reading_ns, 1 - in_flight / kInFlightWanted);
  Finding finding;
  finding.title = fmt::format("{:.1f} reads in flight where storage serves many", in_flight);
  finding.evidence = {
      {fmt::format("while a rank reads, {:.2f} of its reads are under way on average", in_flight),
       "ranks"},
      {fmt::format("a read takes {}, and training waits {} for them ({} of the wall time)",
                   duration(latency_ns), duration(reading_ns),
                   format_percent(waiting.share(reading_ns))),
       "functions"}};
  finding.threshold =
      "under 1.5 in flight, reads of 50 us and more: such a read waits for a device or a server, "
      "and these serve 8 to 64 at a time hardly slower than one";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "DataLoader(..., num_workers=N): each worker keeps one read in flight; begin with 4 "
              "a rank, up to its share of the cores")
          .tf_data(
              "Dataset.interleave(..., cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE) over "
              "the files, and map(..., num_parallel_calls=tf.data.AUTOTUNE)")
          .hdf5(
              "read from several processes, a file each: HDF5 takes one call at a time in a process")
          .loader("millrace.DataLoader keeps many reads in flight from one process")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "waiting for reads, if four instead of so many were under way and the "
                         "storage served them at the same latency");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
