// repeated-opens: a file is opened far more often than there are epochs to read it in.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

// Sixteen workers that open a file twice an epoch each are no fault.
constexpr double kOpensMin = 32;

double opens_a_rank_and_epoch(const analyze::Profile& profile, const analyze::FileStats& file) {
  return ratio(file.io.opens, std::max<uint64_t>(file.ranks, 1) * epochs_of(profile));
}

// Without epochs, an opening that reads the whole file may be an epoch.
bool may_be_an_epoch(const analyze::Profile& profile, const analyze::FileStats& file) {
  return profile.job.epochs == 0 && 2 * (file.io.bytes_read / file.io.opens) >= file.size_bytes;
}

}  // namespace

Judged judge_repeated_opens(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::FileStats* worst = nullptr;
  uint64_t files = 0;
  uint64_t opens = 0;
  uint64_t time_ns = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != analyze::FileKind::kData) continue;
    if (opens_a_rank_and_epoch(profile, file) < kOpensMin) continue;
    if (may_be_an_epoch(profile, file)) continue;
    ++files;
    opens += file.io.opens;
    time_ns += file.io.metadata_ns;
    if (worst == nullptr || file.io.metadata_ns > worst->io.metadata_ns) worst = &file;
  }
  if (opens < kCallsMin || !waiting.matters(time_ns)) return {};

  Finding finding;
  finding.title = files == 1
                      ? fmt::format("one file is opened {} times", format_exact(opens))
                      : fmt::format("{} files are opened {} times", files, format_exact(opens));
  finding.evidence = {{fmt::format("{} is opened {:.0f} times by a rank in an epoch", worst->path,
                                   opens_a_rank_and_epoch(profile, *worst)),
                       "files:" + worst->path},
                      {fmt::format("opening, closing and asking took {}, reading {}",
                                   duration(worst->io.metadata_ns), duration(worst->io.read_ns)),
                       "files:" + worst->path}};
  finding.threshold =
      "32 opens by a rank in an epoch: more than once or twice a worker; each asks the "
      "metadata server again, and format libraries read the file's head again";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "open it once a worker: keep the handle in the Dataset, opened at the first "
              "__getitem__ (not in __init__, which workers would share)")
          .tf_data(
              "open it outside map(): a generator or reader that keeps the file open for all of "
              "its samples")
          .hdf5(
              "keep the file and the dataset open (one H5Fopen, one H5Dopen a worker): each open reads "
              "the superblock and the B-trees anew")
          .take();
  finding.gain = gain_of(waiting, waiting.due_to(time_ns),
                         "the part of waiting that opening and closing these files account for");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
