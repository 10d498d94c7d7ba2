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
  // One epoch cannot differ from itself, and who reads without training may read in order.
  if (profile.job.epochs < 2 || data.order_repeated < kRepeatedMin) return {};
  if (profile.time.mean.compute_ns == 0 && profile.job.framework.empty()) return {};
  if (data.files_read + profile.data_reads.counts.count < kCallsMin) return {};

  Finding finding;
  finding.title = sequential ? "the data are read in the order of their names, every epoch"
                             : "the data are read in the same order every epoch";
  finding.evidence = {
      {fmt::format(
           "{} of the passes of a rank were in the order of its epoch before, over {} epochs",
           format_percent(data.order_repeated), profile.job.epochs),
       "data"},
      {fmt::format("{} of the steps from file to file went up by name, {} within files by offset",
                   format_percent(data.ascending), format_percent(data.ascending_within)),
       "data"}};
  finding.threshold =
      "90 % of the passes repeated: any shuffle that is drawn anew gives two equal orders of "
      "ten samples once in three million epochs";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "DataLoader(..., shuffle=True), and with DistributedSampler call "
              "sampler.set_epoch(epoch) before each epoch: without it every epoch has the first "
              "one's order")
          .tf_data(
              "dataset.shuffle(number of files, reshuffle_each_iteration=True) on the list of files, "
              "and shuffle(10000) on the samples")
          .loader(
              "millrace.DataLoader(..., shuffle=\"partial\", fraction=0.1) draws a new order "
              "every epoch and moves a tenth of the samples between ranks")
          .any(
              "if samples are shuffled in memory after reading, or this is an evaluation, nothing is wrong")
          .take();
  finding.gain.how =
      "no time: training on one order learns the order; what it costs is accuracy, which a "
      "trace does not show";
  finding.severity = Severity::kWarning;
  return finding;
}

}  // namespace millrace::advise
