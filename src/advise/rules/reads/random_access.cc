// random-access: small random reads from storage that is slow at them.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// The bandwidth of one sequential reader.
uint64_t sequential_bytes_per_second(Storage storage) {
  return storage == Storage::kRotating ? 150'000'000 : 500'000'000;
}

bool is_slow_at_seeks(Storage storage) {
  return storage == Storage::kRotating || storage == Storage::kParallel ||
         storage == Storage::kNetwork;
}

}  // namespace

Judged judge_random_access(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kForwardMax = 0.75;  // of random reads, half go forward
  const Waiting waiting = waiting_of(profile);
  const bool rotating = machine.data_storage == Storage::kRotating;
  if (!is_slow_at_seeks(machine.data_storage) || reads_behind_lock(profile)) return {};
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  const analyze::IoTotals io = data_totals(profile);
  if (io.reads < kCallsMin || io.bytes_read / io.reads >= kMiB) return {};
  const double forward = ratio(counts.sequential, counts.transitions);
  const bool within = counts.transitions >= kCallsMin && forward < kForwardMax;
  // The order of files matters only if files are small: large ones are read sequentially.
  const uint64_t mean_file =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  const bool between = profile.data.order == analyze::ReadOrder::kShuffled &&
                       profile.job.epochs > 1 && profile.data.files_read >= kCallsMin &&
                       mean_file < 4 * kMiB;
  if (!within && !between) return {};
  const uint64_t sequential_ns =
      time_at(io.bytes_read, sequential_bytes_per_second(machine.data_storage));
  if (sequential_ns >= io.read_ns) return {};
  const uint64_t saved_ns = waiting.due_to(io.read_ns - sequential_ns);
  if (!waiting.matters(saved_ns)) return {};
  if (waiting.share(waiting.io_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = fmt::format("small random reads: {} each from {} storage",
                              format_bytes(io.bytes_read / io.reads),
                              kStorageNames[static_cast<size_t>(machine.data_storage)]);
  finding.evidence = {
      {within ? fmt::format("{} of the reads within files go forward, {} are sequential",
                            format_percent(forward),
                            format_percent(ratio(counts.consecutive, counts.transitions)))
              : fmt::format("{} files are read in a new order every epoch",
                            format_exact(profile.data.files_read)),
       within ? "data_reads" : "data"},
      {fmt::format("a read takes {}; a thread reaches {}", duration(io.read_ns / io.reads),
                   format_bandwidth(ratio(io.bytes_read, io.read_ns) * 1e9)),
       "kinds:data"}};
  finding.threshold =
      rotating
          ? "reads under 1 MiB, less than three quarters of them forward (random reads: half): a "
            "seek of 8 ms costs as much as reading 1 MiB sequentially"
          : "reads under 1 MiB, less than three quarters of them forward (random reads: half): the "
            "client cannot read ahead, and the servers seek for all jobs at once; 1 MiB is one "
            "request";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shuffle in two steps: read blocks of neighbouring samples (at least 1 MiB) in "
              "random order, then shuffle the samples of several blocks in a buffer")
          .tf_data(
              "shuffle in two steps: shuffle() the list of files, read each sequentially, then "
              "shuffle(10000)")
          .loader(
              "use partial local shuffling: millrace.DataLoader(..., shuffle=millrace.Partial("
              "fraction=0.1)); each rank keeps its shard on local storage, and exchanges a tenth of "
              "it per epoch")
          .store("millrace store: random reads from the memory and local disks of the hosts")
          .take();
  finding.gain = gain_of(
      waiting, saved_ns,
      fmt::format(
          "the waiting caused by these reads, minus reading the same bytes sequentially at {} per "
          "thread",
          format_bandwidth(
              static_cast<double>(sequential_bytes_per_second(machine.data_storage)))));
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
