// no-shuffle: every epoch reads the samples in the same order.
#include <fmt/core.h>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

Finding no_shuffle_text(const Case& given, bool is_indexed) {
  const analyze::DataUse& data = given.profile.data;
  return {
      .kind = "no shuffle",
      .details = data.order != analyze::ReadOrder::kSequential
                     ? "every epoch reads in the same order"
                 : is_indexed ? "every epoch reads samples 0, 1, 2, ..."
                              : "every epoch reads in the order of file names",
      .evidence =
          {at("data",
              "{} of the epochs of a rank repeat the order of the epoch before, over {} epochs",
              format_percent(data.order_repeated), given.job.epochs),
           {is_indexed
                ? fmt::format("{} of the steps from one sample to the next go up by index",
                              format_percent(data.index_ascending))
                : fmt::format(
                      "{} of the moves to another file go up by name, {} of the reads within files "
                      "by offset",
                      format_percent(data.ascending), format_percent(data.ascending_within)),
            "data"}},
      .threshold =
          "90 % repeated, or half of three epochs and more: a new shuffle of ten samples repeats an order once in three million epochs",
      .changes =
          {{"pytorch",
            "shuffle every epoch: DataLoader(..., shuffle=True); with DistributedSampler call "
            "sampler.set_epoch(epoch) before each epoch, or every epoch repeats the first order"},
           {"tf.data",
            "shuffle every epoch: dataset.shuffle(number of files, reshuffle_each_iteration=True) "
            "on the list of files, and shuffle(10000) on the samples"},
           {"loader",
            "use millrace.DataLoader(..., shuffle=millrace.Partial(fraction=0.1)): it reorders "
            "samples every epoch, and moves a tenth of them between ranks"},
           {"any",
            "ignore this if samples are shuffled in memory after reading, or if this is an "
            "evaluation"}},
      .gain = {.how = "a fixed order costs accuracy, which a trace does not show"}};
}

}  // namespace

Judged judge_no_shuffle(const Case& given) {
  using analyze::ReadOrder;
  constexpr double kRepeatedMin = 0.9;
  constexpr double kFixedMin = 0.5;  // of three epochs or more: the first may differ
  const analyze::DataUse& data = given.profile.data;
  const bool sequential = data.order == ReadOrder::kSequential;
  if (!sequential && data.order != ReadOrder::kFixed) return {};
  // Needs two epochs to compare. A program that does not train may read in order.
  const double repeated_min = sequential || given.job.epochs < 3 ? kRepeatedMin : kFixedMin;
  if (given.job.epochs < 2 || data.order_repeated < repeated_min) return {};
  if (given.profile.time.mean.compute_ns == 0 && given.job.framework.empty()) return {};
  const bool is_indexed = data.samples_indexed >= kCallsMin;
  // A few files are often read by name. An order of a few shards that was drawn once is certain
  // after three epochs.
  const bool is_drawn_once =
      !sequential && given.job.epochs >= 3 && data.order_repeated >= kRepeatedMin;
  if (!is_indexed && !is_drawn_once &&
      data.files_read + given.profile.data_reads.counts.count < kCallsMin)
    return {};
  // Files that are read many times per epoch are not samples, and their order says nothing.
  const uint64_t once = given.job.dataset_unique_bytes * given.job.epochs * given.ranks;
  if (!is_indexed && given.job.dataset_bytes_read > 2 * once) return {};
  return less_by_unknown(no_shuffle_text(given, is_indexed));
}

}  // namespace millrace::advise
