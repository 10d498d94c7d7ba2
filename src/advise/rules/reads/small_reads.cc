// small-reads: reads too small for the file system, although larger ones are possible.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// With fewer reads, the sample is what is small.
constexpr uint64_t kReadsPerSampleMin = 4;

// Below this size, latency dominates the time of a read.
struct Limit {
  uint64_t size_bytes = 0;
  std::string_view reason;
};

Limit limit_of(const Machine& machine) {
  if (machine.data_storage == Storage::kParallel) {
    return {kMiB, "a Lustre client sends requests of 1 MiB to 4 MiB, each a round trip"};
  }
  if (machine.data_storage == Storage::kNetwork) {
    return {256 * kKiB, "each request to a server costs a round trip; NFS requests up to 1 MiB"};
  }
  return {64 * kKiB,
          "a solid-state disk needs reads of about 64 KiB to reach its bandwidth, and Linux reads "
          "128 KiB ahead"};
}

// Data reads without those that stats-file-pieces reports.
struct Reads {
  uint64_t count = 0;
  uint64_t small = 0;  // under the limit
  uint64_t bytes = 0;
  uint64_t time_ns = 0;
  uint64_t opens = 0;
};

uint64_t count_below(const LogHistogram& sizes, uint64_t limit_bytes) {
  uint64_t count = 0;
  for (size_t bin = 0; bin < LogHistogram::bin_of(limit_bytes); ++bin) count += sizes.bins()[bin];
  return count;
}

Reads reads_of(const analyze::Profile& profile, uint64_t limit_bytes) {
  const analyze::IoTotals io = data_totals(profile);
  Reads reads{.count = profile.data_reads.counts.count,
              .small = count_below(profile.data_reads.sizes, limit_bytes),
              .bytes = io.bytes_read,
              .time_ns = io.read_ns,
              .opens = io.opens};
  const auto without = [](uint64_t& from, uint64_t what) { from -= std::min(from, what); };
  for (const analyze::FileStats* file : small_files_in_pieces(profile)) {
    without(reads.count, file->read.count);
    without(reads.small, file->read.small);
    without(reads.bytes, file->io.bytes_read);
    without(reads.time_ns, file->io.read_ns);
    without(reads.opens, file->io.opens);
  }
  return reads;
}

// Reads of a sample that do not follow each other, such as the rows of a tile.
std::string pytorch_change(const analyze::Profile& profile, uint64_t wanted_bytes) {
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  const analyze::Loading& loading = profile.loading;
  if (2 * counts.consecutive >= counts.transitions) {
    return fmt::format(
        "read {} at a time: open(path, 'rb', buffering={}), or read() the whole file and slice it "
        "in memory",
        format_bytes(wanted_bytes), wanted_bytes);
  }
  if (loading.samples > 0 && loading.reads >= kReadsPerSampleMin * loading.samples) {
    return fmt::format(
        "a sample takes {} reads in different places: write the files anew so that each sample is "
        "contiguous, and read it at once",
        format_exact(loading.reads / loading.samples));
  }
  return fmt::format(
      "read neighbouring samples together: blocks of about {} in random order, and shuffle the "
      "samples of several blocks in memory; a larger buffer alone would read unused bytes",
      format_bytes(wanted_bytes));
}

std::vector<Change> changes(const analyze::Profile& profile, const Machine& machine,
                            uint64_t wanted_bytes) {
  const uint64_t mean_file =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  return Changes(profile, machine)
      .pytorch(pytorch_change(profile, wanted_bytes))
      .tf_data(fmt::format("set a larger buffer: tf.data.TFRecordDataset(files, buffer_size={}); "
                           "FixedLengthRecordDataset and TextLineDataset take it, too",
                           wanted_bytes))
      .hdf5(fmt::format(
          "rewrite the datasets in chunks of about 1 MiB (h5repack -l CHUNK=...), and make the "
          "chunk cache large enough for a row of them: H5Pset_chunk_cache(dapl, 12421, {}, 1.0), "
          "in h5py rdcc_nbytes={}",
          64 * kMiB, 64 * kMiB))
      .lustre(fmt::format("stripe the directory: {}, then copy the data there again, so that each "
                          "request goes to one server; read in multiples of the stripe size",
                          stripe_command(profile, wanted_bytes, mean_file)))
      .take();
}

// A small HDF5 file of its own for each sample: the library reads it in pieces, and packing them
// merges the reads, too. See many-small-files.
bool opens_small_hdf5_files(const analyze::Profile& profile) {
  const analyze::Loading& loading = profile.loading;
  return loading.library_reads > 0 && 2 * loading.opens >= loading.samples &&
         2 * profile.data.files_small > profile.data.files_read &&
         10 * profile.data.files_read >= loading.samples / epochs_of(profile);
}

// Each read is a whole sample, somewhere in a file: there is nothing to merge it with. See
// random-access.
bool reads_samples_at_random(const analyze::Profile& profile) {
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  const analyze::Loading& loading = profile.loading;
  return loading.samples > 0 && loading.reads < kReadsPerSampleMin * loading.samples &&
         2 * (counts.transitions - counts.consecutive) >= loading.samples;
}

}  // namespace

Judged judge_small_reads(const analyze::Profile& profile, const Machine& machine) {
  // Files that are read in one or a few calls belong to many-small-files.
  constexpr uint64_t kReadsPerOpenMin = 4;
  const Waiting waiting = waiting_of(profile);
  const Limit limit = limit_of(machine);
  const Reads reads = reads_of(profile, limit.size_bytes);
  const double small_share = ratio(reads.small, reads.count);
  const uint64_t mean_bytes = reads.count == 0 ? 0 : reads.bytes / reads.count;
  const bool mergeable = reads.count >= kReadsPerOpenMin * reads.opens;
  if (reads.count < kCallsMin || small_share <= 0.5 || mean_bytes >= limit.size_bytes) return {};
  if (2 * profile.data_reads.counts.lines > reads.count) return {};
  if (!mergeable || reads_samples_at_random(profile) || opens_small_hdf5_files(profile)) return {};
  const uint64_t wanted = std::max<uint64_t>(limit.size_bytes, kMiB);
  // Fewer calls, but the bytes still have to be copied.
  const uint64_t left_ns = std::max(scaled(reads.time_ns, ratio(mean_bytes, wanted)),
                                    time_at(reads.bytes, kCacheBytesPerSecond));
  const uint64_t saved_ns =
      waiting.due_to(reads.time_ns - std::min(reads.time_ns, left_ns) +
                     around_calls(profile.loading, std::min(reads.count, profile.loading.reads)));
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title = fmt::format("small reads: {} on average", format_bytes(mean_bytes));
  finding.evidence = {{fmt::format("{} of {} data reads are under {}; the mean is {}",
                                   format_percent(small_share), format_exact(reads.count),
                                   format_bytes(limit.size_bytes), format_bytes(mean_bytes)),
                       "data_reads"},
                      {fmt::format("they took {} in total, {} each", duration(reads.time_ns),
                                   duration(reads.time_ns / reads.count)),
                       "kinds:data"}};
  finding.threshold = fmt::format("more than half of the reads, and the mean, under {}: {}",
                                  format_bytes(limit.size_bytes), limit.reason);
  finding.changes = changes(profile, machine, wanted);
  finding.gain = gain_of(waiting, saved_ns,
                         fmt::format("the waiting caused by these reads, minus what reads of {} "
                                     "would still take",
                                     format_bytes(wanted)));
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
