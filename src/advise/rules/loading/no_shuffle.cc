// no-shuffle: every epoch reads the samples in the same order.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_no_shuffle(const analyze::Profile& profile, const Machine& machine) {
  using analyze::ReadOrder;
  constexpr double kRepeatedMin = 0.9;
  constexpr double kFixedMin = 0.5;  // of three epochs or more: the first may differ
  const analyze::DataUse& data = profile.data;
  const bool sequential = data.order == ReadOrder::kSequential;
  if (!sequential && data.order != ReadOrder::kFixed) return {};
  // Needs two epochs to compare. A program that does not train may read in order.
  const double repeated_min = sequential || profile.job.epochs < 3 ? kRepeatedMin : kFixedMin;
  if (profile.job.epochs < 2 || data.order_repeated < repeated_min) return {};
  if (profile.time.mean.compute_ns == 0 && profile.job.framework.empty()) return {};
  const bool is_indexed = data.samples_indexed >= kCallsMin;
  // A few files are often read by name. An order of a few shards that was drawn once is certain
  // after three epochs.
  const bool is_drawn_once =
      !sequential && profile.job.epochs >= 3 && data.order_repeated >= kRepeatedMin;
  if (!is_indexed && !is_drawn_once &&
      data.files_read + profile.data_reads.counts.count < kCallsMin)
    return {};
  // Files that are read many times per epoch are not samples, and their order says nothing.
  const uint64_t once = profile.job.dataset_unique_bytes * profile.job.epochs *
                        std::max<uint64_t>(profile.job.ranks, 1);
  if (!is_indexed && profile.job.dataset_bytes_read > 2 * once) return {};

  Finding finding;
  finding.title = !sequential  ? "no shuffle: every epoch reads in the same order"
                  : is_indexed ? "no shuffle: every epoch reads samples 0, 1, 2, ..."
                               : "no shuffle: every epoch reads in the order of file names";
  finding.evidence = {
      {fmt::format(
           "{} of the epochs of a rank repeat the order of the epoch before, over {} epochs",
           format_percent(data.order_repeated), profile.job.epochs),
       "data"},
      {is_indexed
           ? fmt::format("{} of the steps from one sample to the next go up by index",
                         format_percent(data.index_ascending))
           : fmt::format("{} of the moves to another file go up by name, {} of the reads within "
                         "files by offset",
                         format_percent(data.ascending), format_percent(data.ascending_within)),
       "data"}};
  finding.threshold =
      "90 % repeated, or half of three epochs and more: a new shuffle of ten samples repeats an order once in three million epochs";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shuffle every epoch: DataLoader(..., shuffle=True); with DistributedSampler call "
              "sampler.set_epoch(epoch) before each epoch, or every epoch repeats the first order")
          .tf_data(
              "shuffle every epoch: dataset.shuffle(number of files, "
              "reshuffle_each_iteration=True) on the list of files, and shuffle(10000) on the "
              "samples")
          .loader(
              "use millrace.DataLoader(..., shuffle=millrace.Partial(fraction=0.1)): it reorders "
              "samples every epoch, and moves a tenth of them between ranks")
          .any(
              "ignore this if samples are shuffled in memory after reading, or if this is an "
              "evaluation")
          .take();
  finding.gain.how = "a fixed order costs accuracy, which a trace does not show";
  finding.severity = Severity::kWarning;
  return finding;
}

}  // namespace millrace::advise
