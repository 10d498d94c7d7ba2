// many-small-files: a dataset of many small files, which take much time to open.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
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
uint64_t removed_work(const analyze::Profile& profile) {
  const analyze::Loading& loading = profile.loading;
  const analyze::IoTotals io = data_totals(profile);
  if (loading.work_ns == 0) return io.metadata_ns;
  // Without what metadata-storm reports: files listed and examined for each sample.
  const uint64_t others = loading.stats + loading.lists;
  const double own = examines_files(profile) ? ratio(2 * loading.opens + loading.reads,
                                                     2 * loading.opens + loading.reads + others)
                                             : 1;
  const uint64_t opening_ns =
      scaled(loading.metadata_ns, own) + around_calls(loading, 2 * loading.opens);
  const Format format = format_of(profile).format;
  if (format != Format::kArrays && format != Format::kHdf5 && format != Format::kUnknown) {
    return opening_ns;
  }
  // A packed array is mapped: a sample is a slice, and its bytes are copied once.
  // Reads that wait for storage do so in one large file, too.
  const bool is_cached = io.reads > 0 && io.read_ns / io.reads < kSlowReadNs;
  const uint64_t code_ns = std::min(loading.other_ns, loading.opens * kCodeOfFileNs);
  const uint64_t all_ns = scaled(loading.metadata_ns + code_ns, own) + loading.library_ns +
                          (is_cached ? loading.read_ns : 0);
  const uint64_t left_ns =
      loading.samples * kSampleNs + (is_cached ? time_at(io.bytes_read, kCacheBytesPerSecond) : 0);
  return std::max(opening_ns, all_ns - std::min(all_ns, left_ns));
}

}  // namespace

Judged judge_many_small_files(const analyze::Profile& profile, const Machine& machine) {
  constexpr uint64_t kFilesMin = 200;
  constexpr double kMetadataShareMin = 0.2;
  constexpr double kOpensPerSampleMin = 0.5;
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  const analyze::DataUse& data = profile.data;
  const analyze::Loading& loading = profile.loading;
  const double small_share = ratio(data.files_small, data.files_read);
  if (data.files_read < kFilesMin || small_share <= 0.5) return {};
  const double metadata_share = ratio(io.metadata_ns, time_of(io));
  const bool opens_files =
      loading.work_ns == 0
          ? metadata_share >= kMetadataShareMin
          : ratio(loading.opens, loading.samples) >= kOpensPerSampleMin && loading.samples > 0;
  const uint64_t removed_ns = removed_work(profile);
  const uint64_t saved_ns = waiting.due_to(removed_ns);
  if (!opens_files || waiting.share(saved_ns) < kWaitShareMin) return {};

  const uint64_t mean_bytes =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  Finding finding;
  finding.title =
      fmt::format("{} small files: each sample opens a file of {}",
                  format_count(static_cast<double>(data.files_small)), format_bytes(mean_bytes));
  finding.evidence = {{fmt::format("{} of {} data files are under 1 MiB; the mean is {}",
                                   format_percent(small_share), format_exact(data.files_read),
                                   format_bytes(mean_bytes)),
                       "data"},
                      {fmt::format("open, close and stat took {}, reads {}",
                                   duration(io.metadata_ns), duration(io.read_ns)),
                       "kinds:data"}};
  if (loading.work_ns > 0) {
    finding.evidence.push_back(
        {fmt::format("reading a sample takes {}, of which {} would be left with packed samples",
                     duration(loading.work_ns / std::max<uint64_t>(loading.samples, 1)),
                     duration((loading.work_ns - std::min(loading.work_ns, removed_ns)) /
                              std::max<uint64_t>(loading.samples, 1))),
         "loading"});
  }
  finding.threshold =
      "200 files, most under 1 MiB, and 5 % of training time to gain: np.load of a small file takes "
      "140 us, a row of a mapped array 3 us; on a parallel file system all hosts ask one metadata "
      "server";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "pack them: arrays of one shape into one .npy file (np.load(path, mmap_mode='r')[i]), "
              "others into tar files of 100 MiB to 1 GiB (WebDataset), HDF5 or LMDB")
          .tf_data("pack them into TFRecord files of 100 MiB to 1 GiB (tf.io.TFRecordWriter)")
          .lustre(fmt::format(
              "until they are packed: run lfs setstripe -E 64K -L mdt -E -1 -c 1 {}, then copy the "
              "files there; this stores the first 64 KiB with the metadata, and the rest on one "
              "server",
              data_directory(profile)))
          .store(fmt::format("pack them without changing the program: {}", store_commands(profile)))
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              loading.work_ns == 0 ? "the waiting caused by open, close and stat"
                                   : "the waiting for opening and reading files, minus slicing and "
                                     "copying the samples of one file");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
