// stats-file-pieces: a statistics or index file beside the dataset is read in small pieces.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

namespace {

bool is_in_pieces(const analyze::Profile& profile, const analyze::FileStats& file) {
  constexpr uint64_t kSizeMax = 64 * kMiB;
  constexpr uint64_t kPieceMax = 4 * kKiB;
  if (file.kind != analyze::FileKind::kData || file.size_bytes > kSizeMax) return false;
  if (file.read.count < kCallsMin || file.io.bytes_read / file.read.count >= kPieceMax)
    return false;
  if (2 * file.read.lines > file.read.count) return false;  // line-reads reports these
  if (4 * file.io.opens > file.read.count) return false;    // repeated-opens reports these
  // Only a file beside the dataset, not the dataset itself.
  if (10 * file.size_bytes > profile.job.dataset_bytes) return false;
  return 10 * file.unique_bytes_read >= 9 * file.size_bytes;
}

}  // namespace

std::vector<const analyze::FileStats*> small_files_in_pieces(const analyze::Profile& profile) {
  constexpr size_t kFilesMax = 8;
  std::vector<const analyze::FileStats*> files;
  uint64_t size_bytes = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (!is_in_pieces(profile, file)) continue;
    files.push_back(&file);
    size_bytes += file.size_bytes;
  }
  // Many such files are the dataset.
  if (files.size() > kFilesMax || 10 * size_bytes > profile.job.dataset_bytes) return {};
  return files;
}

Judged judge_stats_file_pieces(const analyze::Profile& profile, const Machine& machine) {
  Waiting waiting = waiting_of(profile);
  const analyze::FileStats* worst = nullptr;
  uint64_t reads = 0;
  uint64_t time_ns = 0;
  for (const analyze::FileStats* file : small_files_in_pieces(profile)) {
    reads += file->read.count;
    time_ns += file->io.read_ns;
    if (worst == nullptr || file->io.read_ns > worst->io.read_ns) worst = file;
  }
  const uint64_t work_ns = time_ns + around_calls(profile.loading, reads);
  const uint64_t loading_ns = waiting.due_to(work_ns);
  const uint64_t saved_ns = std::max(loading_ns, waiting.exposed_due_to(time_ns));
  if (saved_ns > loading_ns) waiting = waiting.with_startup();
  if (worst == nullptr || !waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title = fmt::format("small reads: a file of {} is read in pieces of {}",
                              format_bytes(worst->size_bytes),
                              format_bytes(worst->io.bytes_read / worst->read.count));
  finding.evidence = {
      {fmt::format("{}: {} reads by {} {} for {}", worst->path, format_exact(worst->read.count),
                   worst->readers, worst->readers == 1 ? "rank" : "ranks",
                   format_bytes(worst->unique_bytes_read)),
       "files:" + worst->path},
      {fmt::format("they took {}", duration(time_ns)), "files:" + worst->path}};
  finding.threshold =
      "at most 64 MiB and a tenth of the dataset, read completely in at least a thousand reads "
      "under 4 KiB: one read of the whole file costs as much as a few of these";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read it whole: pass io.BytesIO(open(path, 'rb').read()) instead of the path; "
              "np.load, zipfile and h5py.File accept it")
          .tf_data("read it whole: call tf.io.read_file(path) once, and slice the tensor")
          .hdf5(
              "read it whole: h5py.File(path, driver='core', backing_store=False), in C "
              "H5Pset_fapl_core; or store it contiguously instead of in small chunks")
          .any("with many ranks: read it on one and broadcast")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns, "the time of these reads that does not overlap with compute");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
