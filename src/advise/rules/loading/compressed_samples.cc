// compressed-samples: samples are decompressed every time they are read.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Known by the regions of libraries, and otherwise by the format of the data.
bool decompresses(const analyze::Loading& loading, const DataFormat& format) {
  const bool is_marked = 50 * loading.decompress_ns >= loading.work_ns && loading.decompress_ns > 0;
  if (!is_marked) {
    // What regions show is something else.
    const bool is_other = 2 * (loading.decode_ns + loading.parse_ns) >= loading.other_ns;
    return format.format == Format::kCompressed && (loading.other_ns == 0 || !is_other);
  }
  const uint64_t weight = format.format == Format::kCompressed ? 2 : 1;
  return weight * loading.decompress_ns >= own_code_ns(loading) &&
         loading.decompress_ns >= std::max(loading.parse_ns, loading.decode_ns);
}

}  // namespace

Judged judge_compressed_samples(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  const DataFormat format = format_of(profile);
  if (waiting.work_ns == 0 || !decompresses(loading, format)) return {};
  if (reread_file(profile) != nullptr || opens_archive(profile)) return {};
  // A file for each sample still has to be opened and understood.
  constexpr uint64_t kPlainFileNs = 100'000;
  const bool has_own_file = 2 * loading.opens >= loading.samples;
  const uint64_t left_ns = loading.samples * (has_own_file ? kPlainFileNs : kSampleNs);
  const uint64_t around_ns = own_code_ns(loading) + loading.decompress_ns;
  const uint64_t code_ns = around_ns - std::min(around_ns, left_ns);
  const uint64_t saved_ns = waiting.due_to(code_ns);
  if (2 * code_ns < waiting.work_ns || waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = fmt::format("compressed samples: {} is unpacked every epoch", format.extension);
  finding.evidence = {
      {fmt::format("{} were read from {} files in {}",
                   format_bytes(data_totals(profile).bytes_read), format.extension,
                   counted(epochs_of(profile), "epoch", "epochs")),
       "extensions:" + format.extension},
      {fmt::format("of {} of loading, decompression and other code took {}, calls that read or "
                   "open files {}",
                   duration(waiting.work_ns), duration(loading.other_ns),
                   duration(loading.read_ns + loading.metadata_ns)),
       "loading"}};
  finding.threshold =
      "half of the loading, and 5 % of training time to gain: gzip delivers 200 to 400 MB/s on one "
      "core";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "store the samples uncompressed (np.save instead of np.savez_compressed, then "
              "np.load(..., mmap_mode='r')), or compress with zstd or LZ4; add workers up to the "
              "cores per rank")
          .tf_data(
              "write TFRecord files without compression, or cache() after decompression on a local "
              "disk")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "the waiting for decompression and the code around it, minus 100 us for "
                         "each file without compression");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
