// file-shuffle: files come in a new order every epoch, the samples of each in the old one.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_file_shuffle(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kStreamedMin = 0.9;
  const analyze::DataUse& data = profile.data;
  const analyze::AccessCounts& counts = profile.data_reads.counts;
  if (profile.job.epochs < 2 || counts.count < kCallsMin || data.files_read < 2) return {};
  const bool jumped = data.order == analyze::ReadOrder::kFilesShuffled;
  // Files from begin to end: their samples have an order that nothing but a buffer changes.
  const bool streamed = data.order == analyze::ReadOrder::kShuffled &&
                        ratio(counts.consecutive, counts.transitions) >= kStreamedMin;
  if (!jumped && !streamed) return {};
  // A file of one sample has no order within it: there must be more steps than files.
  const uint64_t steps =
      profile.job.steps * std::max<uint32_t>(profile.job.ranks, 1) / epochs_of(profile);
  if (2 * data.files_read > steps) return {};

  const uint64_t mean_bytes =
      profile.job.dataset_bytes / std::max<uint64_t>(profile.job.dataset_files, 1);
  Finding finding;
  finding.title = "only the files are shuffled, not the samples in them";
  finding.evidence = {
      {fmt::format("{} files of {} on average serve {} steps an epoch",
                   format_exact(data.files_read), format_bytes(mean_bytes), format_exact(steps)),
       "data"},
      {jumped
           ? fmt::format(
                 "{} of the steps within a file went up by offset, {} from file to file by name",
                 format_percent(data.ascending_within), format_percent(data.ascending))
           : fmt::format(
                 "{} of the reads within a file go straight on, {} of the steps from file to file "
                 "go up by name",
                 format_percent(ratio(counts.consecutive, counts.transitions)),
                 format_percent(data.ascending)),
       "data"}};
  finding.threshold =
      "two steps a file and more, so that neighbours in a file stay neighbours in a batch";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shuffle samples, not files: a map-style Dataset with an index and shuffle=True; or a "
              "buffer behind an IterableDataset (WebDataset: .shuffle(10000))")
          .tf_data(fmt::format(
              "interleave(cycle_length=16) over files, then .shuffle(buffer_size={}): the "
              "buffer must hold several files' samples",
              format_exact(10000)))
          .loader(
              "millrace.DataLoader(..., shuffle=\"partial\", fraction=0.1): samples in a new "
              "order, a tenth of them from other ranks")
          .any("if a buffer in memory shuffles the samples after reading, nothing is wrong")
          .take();
  finding.gain.how =
      "no time: batches of neighbours are alike, which costs accuracy where files were "
      "sorted, and a trace does not show that";
  // Who streams files mostly has a buffer; who picks samples by their index has none.
  finding.severity = jumped ? Severity::kWarning : Severity::kNote;
  return finding;
}

}  // namespace millrace::advise
