// checkpoint-shared: checkpoints are written to shared storage although a local disk has room.
#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Checkpoints {
  uint64_t largest_bytes = 0;
  uint64_t stalled_ns = 0;
};

Finding checkpoint_shared_text(const Case& given, const Checkpoints& seen) {
  return {
      .kind = "checkpoints go to shared storage although a local disk has room",
      .evidence =
          {at("checkpoints",
              "{} checkpoints of up to {} were written to {} storage; they stalled training for {}",
              given.profile.checkpoints.size(), format_bytes(seen.largest_bytes),
              kStorageNames[static_cast<size_t>(given.machine.checkpoint_storage)],
              duration(seen.stalled_ns)),
           at("job", "the local disk of a host has {} free",
              format_bytes(*given.machine.local_disk_bytes))},
      .threshold =
          "room for two checkpoints, and at least 5 % of training time to gain compared with 1 "
          "GB/s, the speed of a local solid-state disk",
      .changes =
          {{"pytorch",
            "save to the local disk first: torch.save to $TMPDIR, then copy to the shared "
            "directory in a low-priority thread or process"},
           {"tf.data",
            "save to the local disk first: tf.train.CheckpointManager(checkpoint, directory on the "
            "local disk), then copy from there"},
           {"any", "copy only the checkpoints that must outlive the host; keep the others local"}},
      .gain = {
          .how =
              "the stall time of all checkpoints, minus the time to write them to local disks at 1 "
              "GB/s"}};
}

}  // namespace

Judged judge_checkpoint_shared(const Case& given) {
  const bool shared = given.machine.checkpoint_storage == Storage::kParallel ||
                      given.machine.checkpoint_storage == Storage::kNetwork;
  if (!shared || !given.machine.local_disk_bytes || given.profile.checkpoints.empty()) return {};
  Checkpoints seen;
  uint64_t bytes = 0;
  for (const analyze::Checkpoint& checkpoint : given.profile.checkpoints) {
    seen.largest_bytes = std::max(seen.largest_bytes, checkpoint.bytes);
    bytes += checkpoint.bytes;
    seen.stalled_ns += checkpoint.stalled_ns;
  }
  // Room for two: the one being written, and the last good one.
  if (2 * seen.largest_bytes > *given.machine.local_disk_bytes ||
      given.profile.time.job.compute_ns == 0)
    return {};
  const uint64_t local_ns = time_at(bytes / given.hosts, kDiskBytesPerSecond);
  if (seen.stalled_ns <= local_ns) return {};
  const uint64_t saved_ns = seen.stalled_ns - local_ns;
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_time(given.waiting, saved_ns, checkpoint_shared_text(given, seen));
}

}  // namespace millrace::advise
