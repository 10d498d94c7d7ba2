// checkpoint-shared: checkpoints are written to shared storage although a local disk has room.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_checkpoint_shared(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kDiskBytesPerSecond = 1'000'000'000;
  const bool shared = machine.checkpoint_storage == Storage::kParallel ||
                      machine.checkpoint_storage == Storage::kNetwork;
  if (!shared || !machine.local_disk_bytes || profile.checkpoints.empty()) return {};
  const Waiting waiting = waiting_of(profile);
  uint64_t largest = 0;
  uint64_t bytes = 0;
  uint64_t stalled_ns = 0;
  for (const analyze::Checkpoint& checkpoint : profile.checkpoints) {
    largest = std::max(largest, checkpoint.bytes);
    bytes += checkpoint.bytes;
    stalled_ns += checkpoint.stalled_ns;
  }
  // Room for two: the one being written, and the last good one.
  if (2 * largest > *machine.local_disk_bytes || profile.time.job.compute_ns == 0) return {};
  const uint64_t hosts = std::max<uint64_t>(profile.job.hosts.size(), 1);
  const uint64_t local_ns = time_at(bytes / hosts, kDiskBytesPerSecond);
  if (stalled_ns <= local_ns) return {};
  const uint64_t saved_ns = stalled_ns - local_ns;
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = "checkpoints go to shared storage although a local disk has room";
  finding.evidence = {
      {fmt::format("{} checkpoints of up to {} were written to {} storage; they stalled training "
                   "for {}",
                   profile.checkpoints.size(), format_bytes(largest),
                   kStorageNames[static_cast<size_t>(machine.checkpoint_storage)],
                   duration(stalled_ns)),
       "checkpoints"},
      {fmt::format("the local disk of a host has {} free", format_bytes(*machine.local_disk_bytes)),
       "job"}};
  finding.threshold =
      "room for two checkpoints, and at least 5 % of training time to gain compared with 1 GB/s, "
      "the speed of a local solid-state disk";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "save to the local disk first: torch.save to $TMPDIR, then copy to the shared "
              "directory in a low-priority thread or process")
          .tf_data(
              "save to the local disk first: tf.train.CheckpointManager(checkpoint, directory on "
              "the local disk), then copy from there")
          .any("copy only the checkpoints that must outlive the host; keep the others local")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "the stall time of all checkpoints, minus the time to write them to local disks at 1 "
              "GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
