// stats-file-pieces: a statistics or index file beside the dataset, read whole in small pieces.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

bool is_small_file_in_pieces(const analyze::Profile& profile, const analyze::FileStats& file) {
  constexpr uint64_t kSizeMax = 64 * kMiB;
  constexpr uint64_t kPieceMax = 4 * kKiB;
  if (file.kind != analyze::FileKind::kData || file.size_bytes > kSizeMax) return false;
  if (file.read.count < kCallsMin || file.io.bytes_read / file.read.count >= kPieceMax)
    return false;
  if (2 * file.read.lines > file.read.count) return false;  // line-reads tells these
  // Beside the dataset: not the dataset itself, nor one of its many files.
  if (10 * file.size_bytes > profile.job.dataset_bytes) return false;
  return 10 * file.unique_bytes_read >= 9 * file.size_bytes;
}

Judged judge_stats_file_pieces(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::FileStats* worst = nullptr;
  uint64_t count = 0;
  uint64_t time_ns = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (!is_small_file_in_pieces(profile, file)) continue;
    ++count;
    time_ns += file.io.read_ns;
    if (worst == nullptr || file.io.read_ns > worst->io.read_ns) worst = &file;
  }
  // Many of them are the dataset.
  if (worst == nullptr || count > 8 || !waiting.matters(time_ns)) return {};

  Finding finding;
  finding.title =
      fmt::format("a file of {} is read in pieces of {}", format_bytes(worst->size_bytes),
                  format_bytes(worst->io.bytes_read / worst->read.count));
  finding.evidence = {
      {fmt::format("{}: {} reads by {} {} for {}", worst->path, format_exact(worst->read.count),
                   worst->readers, worst->readers == 1 ? "rank" : "ranks",
                   format_bytes(worst->unique_bytes_read)),
       "files:" + worst->path},
      {fmt::format("they took {}", duration(time_ns)), "files:" + worst->path}};
  finding.threshold =
      "at most 64 MiB and a tenth of the dataset, all of it read, in a thousand pieces and "
      "more of under 4 KiB: one read of the whole costs what a few of these do";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read it whole: io.BytesIO(open(path, 'rb').read()) in place of the path, as np.load, "
              "zipfile and h5py.File all take it")
          .tf_data("tf.io.read_file(path) once, and slice the tensor")
          .hdf5(
              "h5py.File(path, driver='core', backing_store=False), in C H5Pset_fapl_core: one read of the "
              "file; or store it contiguous instead of in small chunks")
          .any("on many ranks: read it on one and broadcast")
          .take();
  finding.gain =
      gain_of(waiting, waiting.unhidden_due_to(time_ns),
              "the part of I/O that compute does not hide which these reads account for");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
