// many-small-files: a dataset of many small files, which take much time to open.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// A read of a small file from the page cache takes a few microseconds, one from a server a
// millisecond.
constexpr uint64_t kSlowReadNs = 200'000;

// np.load takes 140 us, torch.load and h5py.File a few hundred. More is parsing or decoding, which
// packing does not save.
constexpr uint64_t kCodeOfFileNs = 600'000;

// Work that a packed dataset does not have, summed over threads and ranks.
uint64_t removed_work(const Case& given) {
  if (given.loading.work_ns == 0) return given.io.metadata_ns;
  // Without what metadata-storm reports: files listed and examined for each sample.
  const uint64_t others = given.loading.stats + given.loading.lists;
  const double own = examines_files(given)
                         ? ratio(2 * given.loading.opens + given.loading.reads,
                                 2 * given.loading.opens + given.loading.reads + others)
                         : 1;
  const uint64_t opening_ns =
      scaled(given.loading.metadata_ns, own) + around_calls(given, 2 * given.loading.opens);
  const Format format = given.format.format;
  if (format != Format::kArrays && format != Format::kHdf5 && format != Format::kUnknown) {
    return opening_ns;
  }
  // A packed array is mapped: a sample is a slice, and its bytes are copied once.
  // Reads that wait for storage do so in one large file, too.
  const bool is_cached = given.io.reads > 0 && given.io.read_ns / given.io.reads < kSlowReadNs;
  const uint64_t code_ns = std::min(given.loading.other_ns, given.loading.opens * kCodeOfFileNs);
  const uint64_t all_ns = scaled(given.loading.metadata_ns + code_ns, own) +
                          given.loading.library_ns + (is_cached ? given.loading.read_ns : 0);
  const uint64_t left_ns = given.loading.samples * kSampleNs +
                           (is_cached ? time_at(given.io.bytes_read, kCacheBytesPerSecond) : 0);
  return std::max(opening_ns, minus(all_ns, left_ns));
}

Finding many_small_files_text(const Case& given, uint64_t removed_ns) {
  Finding text = {
      .kind = fmt::format("{} small files",
                          format_count(static_cast<double>(given.profile.data.files_small))),
      .details = "each sample opens a file of " + format_bytes(given.mean_file_bytes),
      .evidence = {at("data", "{} of {} data files are under 1 MiB; the mean is {}",
                      format_percent(
                          ratio(given.profile.data.files_small, given.profile.data.files_read)),
                      format_exact(given.profile.data.files_read),
                      format_bytes(given.mean_file_bytes)),
                   at("kinds:data", "open, close and stat took {}, reads {}",
                      duration(given.io.metadata_ns), duration(given.io.read_ns))},
      .threshold =
          "200 files, most under 1 MiB, and 5 % of training time to gain: np.load of a small file "
          "takes 140 us, a row of a mapped array 3 us; on a parallel file system all hosts ask one "
          "metadata server",
      .changes =
          {{"pytorch",
            "pack them: arrays of one shape into one .npy file (np.load(path, mmap_mode='r')[i]), "
            "others into tar files of 100 MiB to 1 GiB (WebDataset), HDF5 or LMDB"},
           {"tf.data", "pack them into TFRecord files of 100 MiB to 1 GiB (tf.io.TFRecordWriter)"},
           {"lustre",
            fmt::format(
                "until they are packed: run lfs setstripe -E 64K -L mdt -E -1 -c 1 {}, then copy "
                "the files there; this stores the first 64 KiB with the metadata, and the rest on "
                "one server",
                data_directory(given))},
           {"store",
            fmt::format("pack them without changing the program: {}", store_commands(given))}},
      .gain = {.how = given.loading.work_ns == 0
                          ? "the waiting caused by open, close and stat"
                          : "the waiting for opening and reading files, minus slicing and copying "
                            "the samples of one file"}};
  if (given.loading.work_ns > 0) {
    text.evidence.push_back(
        at("loading", "reading a sample takes {}, of which {} would be left with packed samples",
           duration(given.loading.work_ns / std::max<uint64_t>(given.loading.samples, 1)),
           duration(minus(given.loading.work_ns, removed_ns) /
                    std::max<uint64_t>(given.loading.samples, 1))));
  }
  return text;
}

}  // namespace

Judged judge_many_small_files(const Case& given) {
  constexpr uint64_t kFilesMin = 200;
  constexpr double kMetadataShareMin = 0.2;
  constexpr double kOpensPerSampleMin = 0.5;
  const analyze::DataUse& data = given.profile.data;
  const double small_share = ratio(data.files_small, data.files_read);
  if (data.files_read < kFilesMin || small_share <= 0.5) return {};
  const double metadata_share = ratio(given.io.metadata_ns, time_of(given.io));
  const bool opens_files =
      given.loading.work_ns == 0
          ? metadata_share >= kMetadataShareMin
          : ratio(given.loading.opens, given.loading.samples) >= kOpensPerSampleMin &&
                given.loading.samples > 0;
  const uint64_t removed_ns = removed_work(given);
  const uint64_t saved_ns = given.waiting.due_to(removed_ns);
  if (!opens_files || given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, saved_ns, many_small_files_text(given, removed_ns));
}

}  // namespace millrace::advise
