// large-shared-file: many ranks read one large file from shared storage.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_large_shared_file(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kSizeMin = kGiB;
  constexpr uint32_t kReadersMin = 4;
  const Waiting waiting = waiting_of(profile);
  if (!is_shared_storage(profile, machine)) return {};
  if (waiting.share(waiting.io_ns) < kWaitShareMin) return {};
  const analyze::FileStats* file = nullptr;
  for (const analyze::FileStats& candidate : profile.files) {
    if (candidate.kind != analyze::FileKind::kData || candidate.readers < kReadersMin) continue;
    if (candidate.size_bytes < kSizeMin) continue;
    if (file == nullptr || candidate.io.read_ns > file->io.read_ns) file = &candidate;
  }
  if (file == nullptr || !waiting.matters(waiting.due_to(file->io.read_ns) / 2)) return {};
  const analyze::IoTotals io = data_totals(profile);
  if (2 * file->io.bytes_read < io.bytes_read) return {};

  const uint64_t parts = std::clamp<uint64_t>(file->size_bytes / kGiB, file->readers, 1024);
  Finding finding;
  finding.title = fmt::format("server bottleneck: {} ranks read one file of {}", file->readers,
                              format_bytes(file->size_bytes));
  finding.evidence = {
      {fmt::format("{}: {} of the {} of data read, by {} ranks", file->path,
                   format_percent(ratio(file->io.bytes_read, io.bytes_read)),
                   format_bytes(io.bytes_read), file->readers),
       "files:" + file->path},
      {fmt::format("its reads took {}, at {} per thread", duration(file->io.read_ns),
                   format_bandwidth(ratio(file->io.bytes_read, file->io.read_ns) * 1e9)),
       "files:" + file->path}};
  finding.threshold =
      "at least 1 GiB, four ranks and half of the bytes: unless striped, a file lies on one "
      "server, which delivers about 1 to 5 GB/s to all clients together";
  const auto per_part = format_bytes(std::max<uint64_t>(file->size_bytes / parts, 1));
  finding.changes =
      Changes(profile, machine)
          .pytorch(fmt::format("split it into {} files of about {}, and give each rank whole files",
                               parts, per_part))
          .tf_data(fmt::format("split it into {} TFRecord files of about {}, then shard() and "
                               "interleave() over them",
                               parts, per_part))
          .hdf5(
              "if it must stay one file: use chunks of at least 1 MiB, aligned to the stripes "
              "(H5Pset_alignment(fapl, 65536, stripe size))")
          .lustre(fmt::format("stripe it over several servers: {}, then copy the file again",
                              stripe_command(profile, 4 * kMiB, file->size_bytes)))
          .take();
  finding.gain =
      gain_of(waiting, waiting.due_to(file->io.read_ns) / 2,
              "half of the waiting for this file: if one server is the bottleneck, a second one "
              "halves the time");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
