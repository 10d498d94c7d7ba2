// checkpoint-small-writes: a checkpoint is written in many small writes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

Finding checkpoint_small_writes_text(const analyze::IoTotals& io) {
  return {
      .kind = "small checkpoint writes",
      .details = fmt::format("{} on average", format_bytes(io.bytes_written / io.writes)),
      .evidence = {at("kinds:checkpoint",
                      "{} writes for {} of checkpoints, {} per write on average",
                      format_exact(io.writes), format_bytes(io.bytes_written),
                      format_bytes(io.bytes_written / io.writes)),
                   at("kinds:checkpoint", "they took {}, {} each", duration(io.write_ns),
                      duration(io.write_ns / io.writes))},
      .threshold =
          "a mean under 64 KiB: a parallel file system transfers 1 MiB to 4 MiB per request, and "
          "takes a lock for every partial one",
      .changes =
          {{"pytorch",
            "write through a large buffer: with open(path, 'wb', buffering=16 << 20) as f: "
            "torch.save(state, f); do not pickle many small objects"},
           {"tf.data",
            "write fewer, larger shards: tf.train.Checkpoint groups variables; avoid one file per "
            "variable"},
           {"hdf5",
            "store many small tensors in one dataset, and call H5Pset_meta_block_size(fapl, 1 << "
            "20) to aggregate metadata"},
           {"lustre", "use large stripes: lfs setstripe -S 4M -c 4 on the checkpoint directory"}},
      .gain = {
          .how =
              "the time of these writes that does not overlap with compute, minus what writes of 1 "
              "MiB would take"}};
}

}  // namespace

Judged judge_checkpoint_small_writes(const Case& given) {
  constexpr uint64_t kSizeMax = 64 * kKiB;
  const Waiting waiting = given.waiting.with_startup();
  const analyze::IoTotals* io = totals_of(given.profile, analyze::FileKind::kCheckpoint);
  if (io == nullptr || io->writes < kCallsMin) return {};
  const uint64_t mean_bytes = io->bytes_written / io->writes;
  if (mean_bytes >= kSizeMax) return {};
  const uint64_t left_ns = std::max(scaled(io->write_ns, ratio(mean_bytes, kMiB)),
                                    time_at(io->bytes_written, kCacheBytesPerSecond));
  const uint64_t needless_ns = minus(io->write_ns, left_ns);
  const uint64_t saved_ns = std::min(
      waiting.exposed_due_to(needless_ns),
      std::max(given.profile.time.mean.checkpoint_ns, given.profile.time.job.checkpoint_ns) +
          unmarked_checkpoints_ns(given.profile));
  if (!waiting.matters(saved_ns)) return {};
  return less_time(waiting, saved_ns, checkpoint_small_writes_text(*io));
}

}  // namespace millrace::advise
