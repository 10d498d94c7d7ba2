// checkpoint-small-writes: a checkpoint in many small writes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

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
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals* io = checkpoint_totals(profile);
  if (io == nullptr || io->writes < kCallsMin) return {};
  const uint64_t mean_bytes = io->bytes_written / io->writes;
  if (mean_bytes >= kSizeMax || !waiting.matters(io->write_ns)) return {};

  const uint64_t left_ns = std::max(scaled(io->write_ns, ratio(mean_bytes, kMiB)),
                                    time_at(io->bytes_written, kCacheBytesPerSecond));
  const uint64_t needless_ns = io->write_ns - std::min(io->write_ns, left_ns);
  Finding finding;
  finding.title = fmt::format("checkpoints are written {} at a time", format_bytes(mean_bytes));
  finding.evidence = {
      {fmt::format("{} writes to checkpoints for {}, {} on average", format_exact(io->writes),
                   format_bytes(io->bytes_written), format_bytes(mean_bytes)),
       "kinds:checkpoint"},
      {fmt::format("they took {}, {} each", duration(io->write_ns),
                   duration(io->write_ns / io->writes)),
       "kinds:checkpoint"}};
  finding.threshold =
      "a mean under 64 KiB: a parallel file system sends 1 MiB to 4 MiB a request, and "
      "takes a lock for each piece that is not whole";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "give torch.save a buffer: with open(path, 'wb', buffering=16 << 20) as f: torch.save("
              "state, f); not pickle of many small objects")
          .tf_data(
              "write fewer, larger shards: tf.train.Checkpoint gathers variables; not one file a "
              "variable")
          .hdf5(
              "one dataset for many small tensors, and H5Pset_meta_block_size(fapl, 1 << 20) to gather "
              "metadata")
          .lustre("lfs setstripe -S 4M -c 4 on the directory of checkpoints")
          .take();
  finding.gain =
      gain_of(waiting,
              std::min(waiting.unhidden_due_to(needless_ns),
                       std::max(profile.time.mean.checkpoint_ns, profile.time.job.checkpoint_ns)),
              "the part of I/O that compute does not hide which these writes account for, less "
              "what writes of 1 MiB would take");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
