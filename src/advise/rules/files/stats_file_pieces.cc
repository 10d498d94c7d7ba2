// stats-file-pieces: a statistics or index file beside the dataset is read in small pieces.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

bool is_in_pieces(const Case& given, const analyze::FileStats& file) {
  constexpr uint64_t kSizeMax = 64 * kMiB;
  constexpr uint64_t kPieceMax = 4 * kKiB;
  if (file.kind != analyze::FileKind::kData || file.size_bytes > kSizeMax) return false;
  if (file.read.count < kCallsMin || file.io.bytes_read / file.read.count >= kPieceMax)
    return false;
  if (2 * file.read.lines > file.read.count) return false;  // line-reads reports these
  if (4 * file.io.opens > file.read.count) return false;    // repeated-opens reports these
  // Only a file beside the dataset, not the dataset itself.
  if (10 * file.size_bytes > given.job.dataset_bytes) return false;
  return 10 * file.unique_bytes_read >= 9 * file.size_bytes;
}

Finding stats_file_pieces_text(const analyze::FileStats& worst, uint64_t time_ns) {
  return {
      .kind = "small reads",
      .details = fmt::format("a file of {} is read in pieces of {}", format_bytes(worst.size_bytes),
                             format_bytes(worst.io.bytes_read / worst.read.count)),
      .evidence = {at("files:" + worst.path, "{}: {} reads by {} {} for {}", worst.path,
                      format_exact(worst.read.count), worst.readers,
                      worst.readers == 1 ? "rank" : "ranks", format_bytes(worst.unique_bytes_read)),
                   at("files:" + worst.path, "they took {}", duration(time_ns))},
      .threshold =
          "at most 64 MiB and a tenth of the dataset, read completely in at least a thousand reads "
          "under 4 KiB: one read of the whole file costs as much as a few of these",
      .changes = {{"pytorch",
                   "read it whole: pass io.BytesIO(open(path, 'rb').read()) instead of the path; "
                   "np.load, zipfile and h5py.File accept it"},
                  {"tf.data",
                   "read it whole: call tf.io.read_file(path) once, and slice the tensor"},
                  {"hdf5",
                   "read it whole: h5py.File(path, driver='core', backing_store=False), in C "
                   "H5Pset_fapl_core; or store it contiguously instead of in small chunks"},
                  {"any", "with many ranks: read it on one and broadcast"}},
      .gain = {.how = "the time of these reads that does not overlap with compute"}};
}

}  // namespace

std::vector<const analyze::FileStats*> small_files_in_pieces(const Case& given) {
  constexpr size_t kFilesMax = 8;
  std::vector<const analyze::FileStats*> files;
  uint64_t size_bytes = 0;
  for (const analyze::FileStats& file : given.profile.files) {
    if (!is_in_pieces(given, file)) continue;
    files.push_back(&file);
    size_bytes += file.size_bytes;
  }
  // Many such files are the dataset.
  if (files.size() > kFilesMax || 10 * size_bytes > given.job.dataset_bytes) return {};
  return files;
}

Judged judge_stats_file_pieces(const Case& given) {
  const analyze::FileStats* worst = nullptr;
  uint64_t reads = 0;
  uint64_t time_ns = 0;
  for (const analyze::FileStats* file : small_files_in_pieces(given)) {
    reads += file->read.count;
    time_ns += file->io.read_ns;
    if (worst == nullptr || file->io.read_ns > worst->io.read_ns) worst = file;
  }
  const uint64_t work_ns = time_ns + around_calls(given, reads);
  const uint64_t loading_ns = given.waiting.due_to(work_ns);
  const uint64_t saved_ns = std::max(loading_ns, given.waiting.exposed_due_to(time_ns));
  const Waiting waiting = saved_ns > loading_ns ? given.waiting.with_startup() : given.waiting;
  if (worst == nullptr || !waiting.matters(saved_ns)) return {};
  return less_time(waiting, saved_ns, stats_file_pieces_text(*worst, time_ns));
}

}  // namespace millrace::advise
