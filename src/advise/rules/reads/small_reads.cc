// small-reads: reads too small for the file system, although larger ones are possible.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// With fewer reads, the sample is what is small.
constexpr uint64_t kReadsPerSampleMin = 4;

// Below this size, latency dominates the time of a read.
struct Limit {
  uint64_t size_bytes = 0;
  std::string_view reason;

  uint64_t wanted_bytes() const { return std::max(size_bytes, kMiB); }
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

  double small_share() const { return ratio(small, count); }
  uint64_t mean_bytes() const { return count == 0 ? 0 : bytes / count; }
};

uint64_t count_below(const LogHistogram& sizes, uint64_t limit_bytes) {
  uint64_t count = 0;
  for (size_t bin = 0; bin < LogHistogram::bin_of(limit_bytes); ++bin) count += sizes.bins()[bin];
  return count;
}

Reads reads_of(const Case& given, uint64_t limit_bytes) {
  Reads reads{.count = given.profile.data_reads.counts.count,
              .small = count_below(given.profile.data_reads.sizes, limit_bytes),
              .bytes = given.io.bytes_read,
              .time_ns = given.io.read_ns,
              .opens = given.io.opens};
  const auto leave_out = [](uint64_t& from, uint64_t what) { from = minus(from, what); };
  for (const analyze::FileStats* file : small_files_in_pieces(given)) {
    leave_out(reads.count, file->read.count);
    leave_out(reads.small, file->read.small);
    leave_out(reads.bytes, file->io.bytes_read);
    leave_out(reads.time_ns, file->io.read_ns);
    leave_out(reads.opens, file->io.opens);
  }
  return reads;
}

// Reads of a sample that do not follow each other, such as the rows of a tile.
std::string pytorch_change(const Case& given, uint64_t wanted_bytes) {
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  if (2 * counts.consecutive >= counts.transitions) {
    return fmt::format(
        "read {} at a time: open(path, 'rb', buffering={}), or read() the whole file and slice it "
        "in memory",
        format_bytes(wanted_bytes), wanted_bytes);
  }
  if (given.loading.samples > 0 &&
      given.loading.reads >= kReadsPerSampleMin * given.loading.samples) {
    return fmt::format(
        "a sample takes {} reads in different places: write the files anew so that each sample is "
        "contiguous, and read it at once",
        format_exact(given.loading.reads / given.loading.samples));
  }
  return fmt::format(
      "read neighbouring samples together: blocks of about {} in random order, and shuffle the "
      "samples of several blocks in memory; a larger buffer alone would read unused bytes",
      format_bytes(wanted_bytes));
}

std::vector<Change> small_reads_changes(const Case& given, uint64_t wanted_bytes) {
  return {
      {"pytorch", pytorch_change(given, wanted_bytes)},
      {"tf.data",
       fmt::format("set a larger buffer: tf.data.TFRecordDataset(files, buffer_size={}); "
                   "FixedLengthRecordDataset and TextLineDataset take it, too",
                   wanted_bytes)},
      {"hdf5",
       fmt::format(
           "rewrite the datasets in chunks of about 1 MiB (h5repack -l CHUNK=...), and make the "
           "chunk cache large enough for a row of them: H5Pset_chunk_cache(dapl, 12421, {}, 1.0), "
           "in h5py rdcc_nbytes={}",
           64 * kMiB, 64 * kMiB)},
      {"lustre",
       fmt::format("stripe the directory: {}, then copy the data there again, so that each request "
                   "goes to one server; read in multiples of the stripe size",
                   stripe_command(given, wanted_bytes, given.mean_file_bytes))}};
}

// A small HDF5 file of its own for each sample: the library reads it in pieces, and packing
// them merges the reads, too. See many-small-files.
bool opens_small_hdf5_files(const Case& given) {
  return given.loading.library_reads > 0 && 2 * given.loading.opens >= given.loading.samples &&
         2 * given.profile.data.files_small > given.profile.data.files_read &&
         10 * given.profile.data.files_read >= given.loading.samples / given.epochs;
}

// Each read is a whole sample, somewhere in a file: there is nothing to merge it with. See
// random-access.
bool reads_samples_at_random(const Case& given) {
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  return given.loading.samples > 0 &&
         given.loading.reads < kReadsPerSampleMin * given.loading.samples &&
         2 * (counts.transitions - counts.consecutive) >= given.loading.samples;
}

Finding small_reads_text(const Case& given, const Reads& reads, const Limit& limit) {
  return {
      .kind = "small reads",
      .details = fmt::format("{} on average", format_bytes(reads.mean_bytes())),
      .evidence = {at("data_reads", "{} of {} data reads are under {}; the mean is {}",
                      format_percent(reads.small_share()), format_exact(reads.count),
                      format_bytes(limit.size_bytes), format_bytes(reads.mean_bytes())),
                   at("kinds:data", "they took {} in total, {} each", duration(reads.time_ns),
                      duration(reads.time_ns / reads.count))},
      .threshold = fmt::format("more than half of the reads, and the mean, under {}: {}",
                               format_bytes(limit.size_bytes), limit.reason),
      .changes = small_reads_changes(given, limit.wanted_bytes()),
      .gain = {.how = fmt::format("the waiting caused by these reads, minus what reads of {} would "
                                  "still take",
                                  format_bytes(limit.wanted_bytes()))}};
}

}  // namespace

Judged judge_small_reads(const Case& given) {
  // Files that are read in one or a few calls belong to many-small-files.
  constexpr uint64_t kReadsPerOpenMin = 4;
  const Limit limit = limit_of(given.machine);
  const Reads reads = reads_of(given, limit.size_bytes);
  const bool mergeable = reads.count >= kReadsPerOpenMin * reads.opens;
  if (reads.count < kCallsMin || reads.small_share() <= 0.5 ||
      reads.mean_bytes() >= limit.size_bytes)
    return {};
  if (2 * given.profile.data_reads.counts.lines > reads.count) return {};
  if (!mergeable || reads_samples_at_random(given) || opens_small_hdf5_files(given)) return {};
  // Fewer calls, but the bytes still have to be copied.
  const uint64_t left_ns =
      std::max(scaled(reads.time_ns, ratio(reads.mean_bytes(), limit.wanted_bytes())),
               time_at(reads.bytes, kCacheBytesPerSecond));
  const uint64_t saved_ns =
      given.waiting.due_to(minus(reads.time_ns, left_ns) +
                           around_calls(given, std::min(reads.count, given.loading.reads)));
  if (!given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, small_reads_text(given, reads, limit));
}

}  // namespace millrace::advise
