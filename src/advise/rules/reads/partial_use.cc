// partial-use: whole files are read although only parts of them are used.
//
// A file is opened and read whole many times per epoch, each time for one sample: a large one, or
// one of many shards.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Use {
  std::vector<Evidence> evidence;
  uint64_t needless_ns = 0;  // time in reads of unused bytes
};

// Opened many times per epoch, and read whole each time.
bool is_read_whole_each_time(const analyze::Profile& profile, const analyze::FileStats& file) {
  constexpr uint64_t kTimesMin = 4;
  constexpr uint64_t kSizeMin = 4 * kMiB;  // smaller files: see hot-small-file; or one read is fine
  if (file.kind != analyze::FileKind::kData || file.size_bytes < kSizeMin) return false;
  const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * epochs_of(profile);
  const double passes = ratio(file.io.bytes_read, file.size_bytes);
  const auto opens = static_cast<double>(file.io.opens);
  // Some libraries open a file twice to read it.
  return passes >= static_cast<double>(kTimesMin * fair_opens) && passes <= 1.1 * opens &&
         2.2 * passes >= opens;
}

Use file_use(const analyze::Profile& profile) {
  Use use;
  if (profile.job.epochs == 0) return use;  // each open may be a new epoch
  const analyze::FileStats* worst = nullptr;
  for (const analyze::FileStats& file : profile.files) {
    if (!is_read_whole_each_time(profile, file)) continue;
    const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * epochs_of(profile);
    // The code around it works on the whole file, too: memory for it is new each time.
    const uint64_t around_ns = scaled(profile.loading.other_ns,
                                      ratio(file.io.bytes_read, data_totals(profile).bytes_read));
    use.needless_ns += scaled(time_of(file.io) + around_ns,
                              1 - ratio(fair_opens * file.size_bytes, file.io.bytes_read));
    if (worst == nullptr || file.io.read_ns > worst->io.read_ns) worst = &file;
  }
  if (worst == nullptr) return {};
  use.evidence = {
      {fmt::format("{} ({}) was opened {} times and read whole each time", worst->path,
                   format_bytes(worst->size_bytes), format_exact(worst->io.opens)),
       "files:" + worst->path},
      {fmt::format("{} were read, of which {} are distinct bytes",
                   format_bytes(worst->io.bytes_read), format_bytes(worst->unique_bytes_read)),
       "files:" + worst->path}};
  return use;
}

// Many smaller files, of several samples each, one of which is opened and read whole for each
// sample. How many samples there are is known from their indices.
Use shard_use(const analyze::Profile& profile) {
  constexpr uint64_t kSamplesPerFileMin = 4;
  constexpr uint64_t kFilesMin = 9;            // fewer: see hot-small-file
  constexpr uint64_t kCodeOfFileNs = 600'000;  // np.load takes 140 us, torch.load a few hundred
  constexpr uint64_t kCodeBytesPerSecond = 200'000'000;
  const analyze::Loading& loading = profile.loading;
  const analyze::Job& job = profile.job;
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t files = profile.data.files_read;
  const uint64_t samples = profile.data.index_end;
  if (files < kFilesMin || samples < kSamplesPerFileMin * files) return {};
  if (10 * loading.opens < 9 * loading.samples) return {};
  if (format_of(profile).format == Format::kImages) return {};  // decoding takes longer
  const uint64_t opens = std::min(io.opens, loading.opens);
  const uint64_t size = job.dataset_bytes / std::max<uint64_t>(job.dataset_files, 1);
  const double whole = ratio(io.bytes_read, size);  // passes over a file
  if (whole < 0.9 * static_cast<double>(loading.samples)) return {};
  if (whole > 1.1 * static_cast<double>(opens)) return {};
  // Code of libraries works on the whole file; of other code, as much as making its values takes.
  const uint64_t own_ns = std::min(
      own_code_ns(loading), opens * kCodeOfFileNs + time_at(io.bytes_read, kCodeBytesPerSecond));
  const uint64_t time_ns =
      loading.read_ns + loading.metadata_ns + loading.decompress_ns + loading.parse_ns + own_ns;
  Use use;
  use.needless_ns = scaled(time_ns, 1 - ratio(files, samples));
  use.evidence = {
      {fmt::format("{} samples are in {} files of {}, one of which is opened and read whole for "
                   "each sample",
                   format_exact(samples), format_exact(files), format_bytes(size)),
       "data"},
      {fmt::format("{} were read, of which {} are distinct bytes", format_bytes(io.bytes_read),
                   format_bytes(job.dataset_unique_bytes)),
       "kinds:data"}};
  return use;
}

}  // namespace

Judged judge_partial_use(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  Use use = file_use(profile);
  if (use.evidence.empty()) use = shard_use(profile);
  const uint64_t saved_ns = waiting.due_to(use.needless_ns);
  if (use.evidence.empty() || !waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title = "read amplification: whole files are read, only parts are used";
  finding.evidence = std::move(use.evidence);
  finding.threshold =
      "a rank reads a whole file over 4 MiB four or more times per epoch, although one pass would "
      "give all of its samples; or files with four or more samples are read whole for each one";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read only the sample: np.load(path, mmap_mode='r')[i], h5py's file['x'][i], or an "
              "index of offsets with os.pread; or use all samples of a file while it is open; or "
              "keep the last files in memory (functools.lru_cache)")
          .tf_data(
              "read each file once: interleave() over the files, use all samples of each, and "
              "shuffle() them afterwards")
          .take();
  finding.gain = gain_of(waiting, saved_ns, "the waiting caused by reads of unused bytes");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
