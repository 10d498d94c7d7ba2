// checkpoint-stall: training stops while a checkpoint is written.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Saved {
  uint64_t count = 0;
  uint64_t alone = 0;  // written by one rank
  uint64_t stalled_ns = 0;
  uint64_t bytes = 0;
  size_t longest = 0;  // index of the checkpoint with the longest stall
};

Saved saved_of(const Case& given) {
  Saved saved;
  // After the last step there is no training to stop.
  uint64_t last_step_ns = 0;
  for (const analyze::RankLoad& rank : given.profile.ranks) {
    last_step_ns = std::max(last_step_ns, rank.end_ns);
  }
  for (size_t i = 0; i < given.profile.checkpoints.size(); ++i) {
    const analyze::Checkpoint& checkpoint = given.profile.checkpoints[i];
    if (last_step_ns > 0 && checkpoint.begin_ns >= last_step_ns) continue;
    saved.count += 1;
    saved.alone += checkpoint.ranks_writing <= 1 ? 1 : 0;
    saved.stalled_ns += checkpoint.stalled_ns;
    saved.bytes += checkpoint.bytes;
    if (checkpoint.stalled_ns > given.profile.checkpoints[saved.longest].stalled_ns)
      saved.longest = i;
  }
  saved.stalled_ns += unmarked_checkpoints_ns(given.profile);
  return saved;
}

Finding checkpoint_stall_text(const Case& given, const Saved& saved, bool others_wait) {
  const analyze::Checkpoint& longest = given.profile.checkpoints[saved.longest];
  return {
      .kind = "checkpoint stall",
      .details = others_wait ? fmt::format("{} {} while one writes", given.ranks - 1,
                                           given.ranks == 2 ? "rank waits" : "ranks wait")
                             : "training stops during checkpoints",
      .evidence = {at("checkpoints", "{} {} stalled training for {}, {}", saved.count,
                      saved.count == 1 ? "checkpoint" : "checkpoints", duration(saved.stalled_ns),
                      given.waiting.part(saved.stalled_ns)),
                   at("checkpoints:" + longest.file,
                      "the longest stall took {}: {} written by {} of {} ranks",
                      duration(longest.stalled_ns), format_bytes(longest.bytes),
                      longest.ranks_writing, given.ranks)},
      .threshold =
          "5 % of training time: copying the state in memory takes a fraction of a second, and the "
          "write can then overlap with training",
      .changes =
          {{"pytorch",
            "checkpoint asynchronously: torch.distributed.checkpoint.async_save(state, ...) lets "
            "every rank write its part during training; otherwise copy the state to the CPU and "
            "call torch.save in a thread"},
           {"tf.data",
            "checkpoint asynchronously: tf.train.CheckpointOptions(enable_async=True); Orbax does "
            "the same for JAX"},
           {"hdf5", "write in parallel: H5Pset_fapl_mpio, collective, one hyperslab per rank"},
           {"any", "write to a local disk first, and copy from there during training"}},
      .gain = {.how = "the stall time, minus copying the state in memory at 2 GB/s"}};
}

}  // namespace

Judged judge_checkpoint_stall(const Case& given) {
  const Saved saved = saved_of(given);
  // Without marked compute, training would seem to be stalled all the time.
  if (given.profile.time.job.compute_ns == 0) return {};
  if (given.waiting.share(saved.stalled_ns) < kWaitShareMin) return {};
  // Without marked steps, a single one may be that after the last step.
  if (saved.count == 1 && given.profile.steps.duration_ns.count == 0) return {};

  const bool others_wait = given.ranks > 1 && 2 * saved.alone > saved.count;
  const uint64_t writers = others_wait ? 1 : given.ranks;
  const uint64_t left_ns = time_at(saved.bytes / writers, kCacheBytesPerSecond);
  return less_time(given.waiting, minus(saved.stalled_ns, left_ns),
                   checkpoint_stall_text(given, saved, others_wait));
}

}  // namespace millrace::advise
