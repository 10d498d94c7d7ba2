// repeated-opens: a file is opened many times per epoch.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Sixteen workers that each open a file twice per epoch are normal.
constexpr double kOpensMin = 32;

// An archive or an index that is searched anew at each open: more reads than a sample needs, but
// not the whole file.
bool is_searched(const analyze::FileStats& file) {
  constexpr uint64_t kReadsToSearch = 16;
  return file.io.reads >= kReadsToSearch * file.io.opens &&
         4 * (file.io.bytes_read / std::max<uint64_t>(file.io.opens, 1)) <= 3 * file.size_bytes;
}

// Part of the code of a sample that reads the contents of its archive.
constexpr double kOfArchive = 0.75;

// Each open reads the same few bytes: a header, of a file that is then mapped or read elsewhere.
bool rereads_header(const analyze::FileStats& file) {
  const uint64_t bytes = file.io.bytes_read / std::max<uint64_t>(file.io.opens, 1);
  return bytes > 0 && bytes <= 4 * kKiB && 10 * file.unique_bytes_read <= file.io.bytes_read &&
         10 * file.unique_bytes_read <= file.size_bytes;
}

double opens_per_rank_and_epoch(const analyze::Profile& profile, const analyze::FileStats& file) {
  return ratio(file.io.opens, std::max<uint64_t>(file.ranks, 1) * epochs_of(profile));
}

// Without marked epochs, an open that reads the whole file may be a new epoch.
bool may_be_an_epoch(const analyze::Profile& profile, const analyze::FileStats& file) {
  return profile.job.epochs == 0 && 2 * (file.io.bytes_read / file.io.opens) >= file.size_bytes;
}

// Opening from Python takes longer than the calls. A file of HDF5 is read anew at each open.
uint64_t code_around_opens(const analyze::Profile& profile, uint64_t opens, bool searches) {
  const analyze::Loading& loading = profile.loading;
  const uint64_t in_loading = std::min(opens, loading.opens);
  const uint64_t calls = 2 * in_loading + std::min(loading.stats, 2 * in_loading);
  if (searches) return loading.other_ns;  // code that reads headers until it finds the sample
  // The table of contents of an archive is read at each open, and takes longer than the sample.
  const bool has_contents = format_of(profile).format == Format::kCompressed;
  const uint64_t plain_ns = has_contents && opens_archive(profile)
                                ? scaled(loading.other_ns, kOfArchive)
                                : code_of_calls(profile, calls, calls + loading.reads);
  uint64_t library_ns = 0;
  for (const analyze::FunctionStats& function : profile.functions) {
    const bool opens_hdf5 = function.name == "H5Fopen" || function.name == "H5Fclose" ||
                            function.name == "H5Dopen2" || function.name == "H5Dclose";
    if (opens_hdf5) library_ns += function.time_ns;
  }
  if (library_ns > 0 && loading.library_ns > 0) {
    // h5py takes 140 us to open a file and a dataset, 7 us to read a row
    // (benchmarks/sample_costs.py).
    return library_ns + scaled(loading.other_ns,
                               ratio(20 * in_loading, 20 * in_loading + loading.library_reads));
  }
  return plain_ns;
}

}  // namespace

bool opens_archive(const analyze::Profile& profile) {
  const analyze::Loading& loading = profile.loading;
  if (loading.samples == 0 || 2 * loading.opens < loading.samples) return false;
  return 32 * profile.data.files_read * epochs_of(profile) <= loading.samples;
}

Judged judge_repeated_opens(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::FileStats* worst = nullptr;
  uint64_t files = 0;
  uint64_t opens = 0;
  uint64_t searched = 0;  // of these opens
  uint64_t time_ns = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != analyze::FileKind::kData) continue;
    if (opens_per_rank_and_epoch(profile, file) < kOpensMin) continue;
    if (may_be_an_epoch(profile, file)) continue;
    if (is_loaded_again(profile, file)) continue;  // hot-small-file
    ++files;
    opens += file.io.opens;
    time_ns += file.io.metadata_ns;
    if (rereads_header(file)) time_ns += file.io.read_ns;
    if (is_searched(file)) {
      time_ns += file.io.read_ns;
      searched += file.io.opens;
    }
    if (worst == nullptr || file.io.metadata_ns > worst->io.metadata_ns) worst = &file;
  }
  if (opens < kCallsMin) return {};
  const uint64_t around_ns = code_around_opens(profile, opens, 2 * searched > opens);
  const uint64_t saved_ns = waiting.due_to(time_ns + around_ns);
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title =
      files == 1
          ? fmt::format("repeated opens: one file is opened {} times", format_exact(opens))
          : fmt::format("repeated opens: {} files are opened {} times", files, format_exact(opens));
  finding.evidence = {{fmt::format("a rank opens {} {:.0f} times per epoch", worst->path,
                                   opens_per_rank_and_epoch(profile, *worst)),
                       "files:" + worst->path},
                      {fmt::format("open, close and stat took {}, reads {}",
                                   duration(worst->io.metadata_ns), duration(worst->io.read_ns)),
                       "files:" + worst->path}};
  finding.threshold =
      "32 opens per rank and epoch, which is more than once or twice per worker; each open asks "
      "the metadata server, and format libraries read the header again";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "open it once per worker: keep the handle in the Dataset, and open it in the first "
              "__getitem__ (not in __init__: workers would share the handle)")
          .tf_data(
              "open it outside map(): use a generator or reader that keeps the file open for all "
              "of its samples")
          .hdf5(
              "keep the file and the dataset open (one H5Fopen and one H5Dopen per worker): each "
              "open reads the superblock and the B-trees again")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "the waiting caused by opening and closing these files, with the code "
                         "around the calls");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
