// file-shuffle: the order of files changes every epoch, the order of samples within them does not.
#include <fmt/core.h>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {

bool streams_in_order(const Case& given) {
  constexpr uint64_t kSamplesOfBuffer = 64;
  const analyze::DataUse& data = given.profile.data;
  if (data.streams == 0 || given.loading.samples == 0) return false;
  const uint64_t mean_ns = given.loading.work_ns / given.loading.samples;
  // The first read may be larger than a sample, and opening the first file takes a while.
  return 2 * data.stream_first_bytes < given.mean_file_bytes &&
         data.stream_first_ns < kSamplesOfBuffer * mean_ns + 10'000'000;
}

namespace {

Finding file_shuffle_text(const Case& given, bool jumped, uint64_t steps) {
  const analyze::DataUse& data = given.profile.data;
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  return {
      .kind = "files are shuffled, but not the samples within them",
      .evidence =
          {at("data", "{} files of {} on average provide {} steps per epoch",
              format_exact(data.files_read), format_bytes(given.mean_file_bytes),
              format_exact(steps)),
           {jumped
                ? fmt::format(
                      "{} of the reads within a file move to a higher offset; {} of the moves to "
                      "another file go up by name",
                      format_percent(data.ascending_within), format_percent(data.ascending))
                : fmt::format(
                      "{} of the reads within a file are sequential; {} of the moves to another "
                      "file go up by name",
                      format_percent(ratio(counts.consecutive, counts.transitions)),
                      format_percent(data.ascending)),
            "data"}},
      .threshold =
          "at least two steps per file, so that neighbours in a file stay neighbours in a batch",
      .changes =
          {{"pytorch",
            "shuffle samples, not files: use a map-style Dataset with an index and shuffle=True, "
            "or a shuffle buffer after an IterableDataset (WebDataset: .shuffle(10000))"},
           {"tf.data",
            "shuffle samples, not files: interleave(cycle_length=16) over files, then "
            ".shuffle(buffer_size=10000); the buffer must hold the samples of several files"},
           {"loader",
            "use millrace.DataLoader(..., shuffle=millrace.Partial(fraction=0.1)): it reorders "
            "samples every epoch, and takes a tenth of them from other ranks"},
           {"any", "ignore this if a buffer in memory shuffles the samples after reading"}},
      .gain = {
          .how = "batches of similar neighbours cost accuracy if files were sorted, which a trace "
                 "does not show"}};
}

}  // namespace

Judged judge_file_shuffle(const Case& given) {
  constexpr double kStreamedMin = 0.9;
  const analyze::DataUse& data = given.profile.data;
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  constexpr uint64_t kReadsMin = 64;  // large ones: a file of 4 MiB takes a few
  if (given.job.epochs < 2 || counts.count < kReadsMin || data.files_read < 2) return {};
  const bool jumped = data.order == analyze::ReadOrder::kFilesShuffled;
  // Files are read from start to end: only a shuffle buffer could change the order of samples.
  const bool streamed = data.order == analyze::ReadOrder::kShuffled && data.samples_indexed == 0 &&
                        ratio(counts.consecutive, counts.transitions) >= kStreamedMin;
  if (!jumped && !streamed) return {};
  // A file of one sample has no inner order, so require at least two steps per file.
  const uint64_t steps = given.job.steps * given.ranks / given.epochs;
  if (2 * data.files_read > steps) return {};

  Finding finding = file_shuffle_text(given, jumped, steps);
  // Programs that stream files usually have a shuffle buffer; those that read by index do not.
  const bool is_sure = jumped || streams_in_order(given);
  finding.severity = is_sure ? Severity::kWarning : Severity::kNote;
  return finding;
}

}  // namespace millrace::advise
