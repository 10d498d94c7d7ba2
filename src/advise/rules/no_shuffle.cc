// no-shuffle: every epoch reads the samples in the same order.
#include <fmt/core.h>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_no_shuffle(const analyze::Profile& profile, const Machine& machine) {
  using analyze::ReadOrder;
  constexpr double kRepeatedMin = 0.9;
  const analyze::DataUse& data = profile.data;
  const bool sequential = data.order == ReadOrder::kSequential;
  if (!sequential && data.order != ReadOrder::kFixed) return {};
  // Needs two epochs to compare. A program that does not train may read in order.
  if (profile.job.epochs < 2 || data.order_repeated < kRepeatedMin) return {};
  if (profile.time.mean.compute_ns == 0 && profile.job.framework.empty()) return {};
  const bool is_indexed = data.samples_indexed >= kCallsMin;
  if (!is_indexed && data.files_read + profile.data_reads.counts.count < kCallsMin) return {};

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
      "90 % repeated: a new shuffle of ten samples repeats an order once in three million epochs";
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
