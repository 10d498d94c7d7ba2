// partial-use: a whole file is read where a part of it is used.
//
// Two traces of it can be seen: a format library that hands on far fewer bytes than it reads, and a
// file that each opening reads whole, many times an epoch: for one sample of it each time.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

struct Use {
  std::vector<Evidence> evidence;
  uint64_t needless_ns = 0;  // in reads of bytes that were not used
};

// What HDF5 gave the program, against what was read of its files below.
Use format_use(const analyze::Profile& profile, const analyze::IoTotals& io) {
  constexpr double kUsedMax = 0.5;
  for (const analyze::LayerStats& layer : profile.layers) {
    if (layer.layer != analyze::Layer::kFormat || layer.bytes_read == 0) continue;
    uint64_t below_bytes = 0;
    uint64_t below_ns = 0;
    for (const analyze::GroupStats& group : profile.extensions) {
      if (group.name != ".h5" && group.name != ".hdf5" && group.name != ".nc") continue;
      below_bytes += group.io.bytes_read;
      below_ns += group.io.read_ns;
    }
    const double used = ratio(layer.bytes_read, below_bytes);
    if (below_bytes == 0 || used > kUsedMax) return {};
    return {.evidence = {{fmt::format("HDF5 gave the program {} and read {} for it: {} was used",
                                      format_bytes(layer.bytes_read), format_bytes(below_bytes),
                                      format_percent(used)),
                          "layers"},
                         {fmt::format("these reads took {} of the {} in reads of data",
                                      duration(below_ns), duration(io.read_ns)),
                          "extensions"}},
            .needless_ns = scaled(below_ns, 1 - used)};
  }
  return {};
}

// Read whole at each of many openings in an epoch.
bool is_read_whole_each_time(const analyze::Profile& profile, const analyze::FileStats& file) {
  constexpr uint64_t kTimesMin = 4;
  constexpr uint64_t kSizeMin = 4 * kMiB;  // smaller ones: hot-small-file, or simply one read
  if (file.kind != analyze::FileKind::kData || file.size_bytes < kSizeMin) return false;
  const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * epochs_of(profile);
  if (file.io.opens < kTimesMin * fair_opens) return false;
  const double whole = ratio(file.io.bytes_read / file.io.opens, file.size_bytes);
  return whole >= 0.9 && whole <= 1.1;
}

Use file_use(const analyze::Profile& profile) {
  Use use;
  if (profile.job.epochs == 0) return use;  // each time may have been an epoch
  const analyze::FileStats* worst = nullptr;
  for (const analyze::FileStats& file : profile.files) {
    if (!is_read_whole_each_time(profile, file)) continue;
    const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * epochs_of(profile);
    use.needless_ns += scaled(file.io.read_ns, 1 - ratio(fair_opens, file.io.opens));
    if (worst == nullptr || file.io.read_ns > worst->io.read_ns) worst = &file;
  }
  if (worst == nullptr) return {};
  use.evidence = {
      {fmt::format("{} ({}) was opened {} times and read whole each time", worst->path,
                   format_bytes(worst->size_bytes), format_exact(worst->io.opens)),
       "files:" + worst->path},
      {fmt::format("{} were read for {} of different bytes", format_bytes(worst->io.bytes_read),
                   format_bytes(worst->unique_bytes_read)),
       "files:" + worst->path}};
  return use;
}

}  // namespace

Judged judge_partial_use(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  Use use = format_use(profile, data_totals(profile));
  if (!waiting.matters(use.needless_ns)) use = file_use(profile);
  if (use.evidence.empty() || !waiting.matters(use.needless_ns)) return {};

  Finding finding;
  finding.title = "whole files are read where parts of them are used";
  finding.evidence = std::move(use.evidence);
  finding.threshold =
      "half of what a format library reads is not handed on, or a file over 4 MiB is read whole four "
      "times and more by a rank in an epoch: one reading gives all of its samples";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read one sample of it: np.load(path, mmap_mode='r')[i], h5py's file['x'][i], or an "
              "index of offsets and os.pread; or take all samples of a file while it is open")
          .tf_data(
              "interleave() over the files, so that one reading of a file gives all of its samples, "
              "and shuffle() them behind it")
          .hdf5(
              "make a chunk one sample: h5repack -l CHUNK=1x..., and room in the cache for those in use: "
              "H5Pset_chunk_cache(dapl, 12421, 64 << 20, 1.0)")
          .take();
  finding.gain = gain_of(waiting, waiting.due_to(use.needless_ns),
                         "the part of waiting that reading the unused bytes accounts for");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
