// random-access: data are read at random from storage that is slow at it.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

// What one reader gets that goes straight on.
uint64_t straight_bytes_per_second(Storage storage) {
  return storage == Storage::kRotating ? 150'000'000 : 500'000'000;
}

}  // namespace

Judged judge_random_access(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kForwardMax = 0.75;  // at random, half of them go forward
  const Waiting waiting = waiting_of(profile);
  const bool rotating = machine.data_storage == Storage::kRotating;
  const bool parallel =
      machine.data_storage == Storage::kParallel || machine.data_storage == Storage::kNetwork;
  if (!rotating && !parallel) return {};
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  const analyze::IoTotals io = data_totals(profile);
  if (io.reads < kCallsMin || io.bytes_read / io.reads >= kMiB) return {};
  const double forward = ratio(counts.sequential, counts.transitions);
  const bool within = counts.transitions >= kCallsMin && forward < kForwardMax;
  // From file to file it matters where files are small: a large one is read straight on.
  const uint64_t mean_file =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  const bool between = profile.data.order == analyze::ReadOrder::kShuffled &&
                       profile.job.epochs > 1 && profile.data.files_read >= kCallsMin &&
                       mean_file < 4 * kMiB;
  if (!within && !between) return {};
  const uint64_t straight_ns =
      time_at(io.bytes_read, straight_bytes_per_second(machine.data_storage));
  if (straight_ns >= io.read_ns || !waiting.matters(io.read_ns - straight_ns)) return {};
  if (waiting.share(waiting.io_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title =
      fmt::format("random reads of {} from {} storage", format_bytes(io.bytes_read / io.reads),
                  kStorageNames[static_cast<size_t>(machine.data_storage)]);
  finding.evidence = {
      {within ? fmt::format(
                    "{} of the reads within files go forward, {} straight on from the one before",
                    format_percent(forward),
                    format_percent(ratio(counts.consecutive, counts.transitions)))
              : fmt::format("{} files are read in a new order every epoch",
                            format_exact(profile.data.files_read)),
       within ? "data_reads" : "data"},
      {fmt::format("a read takes {} and a thread gets {}", duration(io.read_ns / io.reads),
                   format_bandwidth(ratio(io.bytes_read, io.read_ns) * 1e9)),
       "kinds:data"}};
  finding.threshold =
      rotating
          ? "reads under 1 MiB, under three quarters of them forward (half are by chance): a seek of 8 ms costs as much as "
            "1 MiB of reading straight on"
          : "reads under 1 MiB, under three quarters of them forward (half are by chance): the client cannot read ahead, and the "
            "servers seek for all jobs at once; 1 MiB is one request";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shuffle in two steps: blocks of neighbouring samples (1 MiB and more) in random order, "
              "then the samples of some blocks in a buffer")
          .tf_data(
              "shuffle() the list of files, read each straight through, shuffle(10000) behind it")
          .loader(
              "partial local shuffling: each node keeps its part on its own storage and exchanges a tenth "
              "of it an epoch; millrace.DataLoader(..., shuffle=\"partial\", fraction=0.1)")
          .store("millrace store: random reads from the nodes' own memory and disks")
          .take();
  finding.gain = gain_of(
      waiting, waiting.due_to(io.read_ns - straight_ns),
      fmt::format(
          "the part of waiting that these reads account for, less reading as much "
          "straight on at {} a thread",
          format_bandwidth(static_cast<double>(straight_bytes_per_second(machine.data_storage)))));
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
