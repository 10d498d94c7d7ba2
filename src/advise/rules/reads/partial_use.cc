// partial-use: whole files are read although only parts of them are used.
//
// A file is opened and read whole many times per epoch, each time for one sample: a large one, or
// one of many shards.
#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Use {
  const analyze::FileStats* worst = nullptr;  // of files that are read whole each time
  bool of_shards = false;                     // else: a shard is, for each of its samples
  uint64_t needless_ns = 0;                   // time in reads of unused bytes
};

// Opened many times per epoch, and read whole each time.
bool is_read_whole_each_time(const Case& given, const analyze::FileStats& file) {
  constexpr uint64_t kTimesMin = 4;
  constexpr uint64_t kSizeMin = 4 * kMiB;  // smaller files: see hot-small-file; or one read is fine
  if (file.kind != analyze::FileKind::kData || file.size_bytes < kSizeMin) return false;
  const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * given.epochs;
  const double passes = ratio(file.io.bytes_read, file.size_bytes);
  const auto opens = static_cast<double>(file.io.opens);
  // Some libraries open a file twice to read it.
  return passes >= static_cast<double>(kTimesMin * fair_opens) && passes <= 1.1 * opens &&
         2.2 * passes >= opens;
}

Use file_use(const Case& given) {
  Use use;
  if (given.job.epochs == 0) return use;  // each open may be a new epoch
  for (const analyze::FileStats& file : given.profile.files) {
    if (!is_read_whole_each_time(given, file)) continue;
    const uint64_t fair_opens = std::max<uint64_t>(file.readers, 1) * given.epochs;
    // The code around it works on the whole file, too: memory for it is new each time.
    const uint64_t around_ns =
        scaled(given.loading.other_ns, ratio(file.io.bytes_read, given.io.bytes_read));
    use.needless_ns += scaled(time_of(file.io) + around_ns,
                              1 - ratio(fair_opens * file.size_bytes, file.io.bytes_read));
    if (use.worst == nullptr || file.io.read_ns > use.worst->io.read_ns) use.worst = &file;
  }
  return use;
}

// Many smaller files, of several samples each, one of which is opened and read whole for each
// sample. How many samples there are is known from their indices.
Use shard_use(const Case& given) {
  constexpr uint64_t kSamplesPerFileMin = 4;
  constexpr uint64_t kFilesMin = 9;            // fewer: see hot-small-file
  constexpr uint64_t kCodeOfFileNs = 600'000;  // np.load takes 140 us, torch.load a few hundred
  constexpr uint64_t kCodeBytesPerSecond = 200'000'000;
  const uint64_t files = given.profile.data.files_read;
  const uint64_t samples = given.profile.data.index_end;
  if (files < kFilesMin || samples < kSamplesPerFileMin * files) return {};
  if (10 * given.loading.opens < 9 * given.loading.samples) return {};
  if (given.format.format == Format::kImages) return {};  // decoding takes longer
  const uint64_t opens = std::min(given.io.opens, given.loading.opens);
  const double whole = ratio(given.io.bytes_read, given.mean_file_bytes);  // passes over a file
  if (whole < 0.9 * static_cast<double>(given.loading.samples)) return {};
  if (whole > 1.1 * static_cast<double>(opens)) return {};
  // Code of libraries works on the whole file; of other code, as much as making its values takes.
  const uint64_t own_ns =
      std::min(own_code_ns(given.loading),
               opens * kCodeOfFileNs + time_at(given.io.bytes_read, kCodeBytesPerSecond));
  const uint64_t time_ns = given.loading.read_ns + given.loading.metadata_ns +
                           given.loading.decompress_ns + given.loading.parse_ns + own_ns;
  return {.of_shards = true, .needless_ns = scaled(time_ns, 1 - ratio(files, samples))};
}

std::vector<Evidence> partial_use_evidence(const Case& given, const Use& use) {
  if (use.of_shards) {
    return {at("data",
               "{} samples are in {} files of {}, one of which is opened and read whole for each "
               "sample",
               format_exact(given.profile.data.index_end),
               format_exact(given.profile.data.files_read), format_bytes(given.mean_file_bytes)),
            at("kinds:data", "{} were read, of which {} are distinct bytes",
               format_bytes(given.io.bytes_read), format_bytes(given.job.dataset_unique_bytes))};
  }
  return {
      at("files:" + use.worst->path, "{} ({}) was opened {} times and read whole each time",
         use.worst->path, format_bytes(use.worst->size_bytes), format_exact(use.worst->io.opens)),
      at("files:" + use.worst->path, "{} were read, of which {} are distinct bytes",
         format_bytes(use.worst->io.bytes_read), format_bytes(use.worst->unique_bytes_read))};
}

Finding partial_use_text(const Case& given, const Use& use) {
  return {
      .kind = "read amplification",
      .details = "whole files are read, only parts are used",
      .evidence = partial_use_evidence(given, use),
      .threshold =
          "a rank reads a whole file over 4 MiB four or more times per epoch, although one pass would "
          "give all of its samples; or files with four or more samples are read whole for each one",
      .changes =
          {{"pytorch",
            "read only the sample: np.load(path, mmap_mode='r')[i], h5py's file['x'][i], or an "
            "index of offsets with os.pread; or use all samples of a file while it is open; or "
            "keep the last files in memory (functools.lru_cache)"},
           {"tf.data",
            "read each file once: interleave() over the files, use all samples of each, and "
            "shuffle() them afterwards"}},
      .gain = {.how = "the waiting caused by reads of unused bytes"}};
}

}  // namespace

Judged judge_partial_use(const Case& given) {
  Use use = file_use(given);
  if (use.worst == nullptr) use = shard_use(given);
  const uint64_t saved_ns = given.waiting.due_to(use.needless_ns);
  if ((use.worst == nullptr && !use.of_shards) || !given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, partial_use_text(given, use));
}

}  // namespace millrace::advise
