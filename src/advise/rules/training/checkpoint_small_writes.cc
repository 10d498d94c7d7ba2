// checkpoint-small-writes: a checkpoint is written in many small writes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

const analyze::IoTotals* checkpoint_totals(const analyze::Profile& profile) {
  constexpr auto kName =
      analyze::kFileKindNames[static_cast<size_t>(analyze::FileKind::kCheckpoint)];
  for (const analyze::GroupStats& group : profile.kinds) {
    if (group.name == kName) return &group.io;
  }
  return nullptr;
}

}  // namespace

Judged judge_checkpoint_small_writes(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kSizeMax = 64 * kKiB;
  const Waiting waiting = waiting_of(profile).with_startup();
  const analyze::IoTotals* io = checkpoint_totals(profile);
  if (io == nullptr || io->writes < kCallsMin) return {};
  const uint64_t mean_bytes = io->bytes_written / io->writes;
  if (mean_bytes >= kSizeMax) return {};
  const uint64_t left_ns = std::max(scaled(io->write_ns, ratio(mean_bytes, kMiB)),
                                    time_at(io->bytes_written, kCacheBytesPerSecond));
  const uint64_t needless_ns = io->write_ns - std::min(io->write_ns, left_ns);
  const uint64_t saved_ns =
      std::min(waiting.exposed_due_to(needless_ns),
               std::max(profile.time.mean.checkpoint_ns, profile.time.job.checkpoint_ns) +
                   unmarked_checkpoints_ns(profile));
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title = fmt::format("small checkpoint writes: {} on average", format_bytes(mean_bytes));
  finding.evidence = {{fmt::format("{} writes for {} of checkpoints, {} per write on average",
                                   format_exact(io->writes), format_bytes(io->bytes_written),
                                   format_bytes(mean_bytes)),
                       "kinds:checkpoint"},
                      {fmt::format("they took {}, {} each", duration(io->write_ns),
                                   duration(io->write_ns / io->writes)),
                       "kinds:checkpoint"}};
  finding.threshold =
      "a mean under 64 KiB: a parallel file system transfers 1 MiB to 4 MiB per request, and takes "
      "a lock for every partial one";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "write through a large buffer: with open(path, 'wb', buffering=16 << 20) as f: "
              "torch.save(state, f); do not pickle many small objects")
          .tf_data(
              "write fewer, larger shards: tf.train.Checkpoint groups variables; avoid one file "
              "per variable")
          .hdf5(
              "store many small tensors in one dataset, and call H5Pset_meta_block_size(fapl, 1 << "
              "20) to aggregate metadata")
          .lustre("use large stripes: lfs setstripe -S 4M -c 4 on the checkpoint directory")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "the time of these writes that does not overlap with compute, minus what writes of 1 "
              "MiB would take");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
