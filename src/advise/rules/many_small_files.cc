// many-small-files: a dataset of many small files, which take much time to open.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_many_small_files(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kMetadataShareMin = 0.2;
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  const analyze::DataUse& data = profile.data;
  const double small_share = ratio(data.files_small, data.files_read);
  const double metadata_share = ratio(io.metadata_ns, time_of(io));
  if (data.files_read < kCallsMin || small_share <= 0.5) return {};
  if (metadata_share < kMetadataShareMin || !waiting.matters(io.metadata_ns)) return {};

  const uint64_t mean_bytes =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  Finding finding;
  finding.title = fmt::format("{} small files: metadata calls take {} of their I/O time",
                              format_count(static_cast<double>(data.files_small)),
                              format_percent(metadata_share));
  finding.evidence = {{fmt::format("{} of {} data files are under 1 MiB; the mean is {}",
                                   format_percent(small_share), format_exact(data.files_read),
                                   format_bytes(mean_bytes)),
                       "data"},
                      {fmt::format("open, close and stat took {}, reads {}",
                                   duration(io.metadata_ns), duration(io.read_ns)),
                       "kinds:data"}};
  finding.threshold =
      "a thousand files, most under 1 MiB, and a fifth of their I/O time in metadata calls: on a "
      "parallel file system all hosts send their opens to the same metadata server";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "pack them into files of 100 MiB to 1 GiB: tar with WebDataset, or HDF5 or LMDB "
              "files with an index")
          .tf_data("pack them into TFRecord files of 100 MiB to 1 GiB (tf.io.TFRecordWriter)")
          .lustre(fmt::format(
              "until they are packed: run lfs setstripe -E 64K -L mdt -E -1 -c 1 {}, then copy the "
              "files there; this stores the first 64 KiB with the metadata, and the rest on one "
              "server",
              data_directory(profile)))
          .store("millrace store (coming) packs files while loading them, and keeps their paths")
          .take();
  finding.gain = gain_of(waiting, waiting.due_to(io.metadata_ns),
                         "the waiting caused by open, close and stat");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
