// checkpoint-shared: checkpoints go to the shared file system where a local disk has room.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

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
  // Two of them: the one that is written beside the last one that is good.
  if (2 * largest > *machine.local_disk_bytes || profile.time.job.compute_ns == 0) return {};
  const uint64_t nodes = std::max<uint64_t>(profile.job.hosts.size(), 1);
  const uint64_t local_ns = time_at(bytes / nodes, kDiskBytesPerSecond);
  if (stalled_ns < kSecond || stalled_ns <= local_ns) return {};
  const uint64_t saved_ns = stalled_ns - local_ns;
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = "checkpoints go to shared storage while a local disk has room";
  finding.evidence = {
      {fmt::format("{} checkpoints of up to {} went to {} storage; training stood still for {}",
                   profile.checkpoints.size(), format_bytes(largest),
                   kStorageNames[static_cast<size_t>(machine.checkpoint_storage)],
                   duration(stalled_ns)),
       "checkpoints"},
      {fmt::format("a node's own disk has {} free", format_bytes(*machine.local_disk_bytes)),
       "job"}};
  finding.threshold =
      "room for two checkpoints, and 5 % of the wall time to gain against 1 GB/s, which a "
      "node's solid-state disk gives it alone";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "torch.save to $TMPDIR, then copy to the shared directory in a thread or a process of "
              "low priority")
          .tf_data(
              "tf.train.CheckpointManager(checkpoint, directory on the local disk), and copy from "
              "there")
          .any("copy every one that must outlive the node; keep the others local only")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "the time in which nobody computed, less writing as much to the nodes' own disks "
              "at 1 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
