#include "loader/exchange/class_skew.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>

namespace millrace::loader::exchange {
namespace {

double total_of(const ClassCounts& counts) {
  double total = 0;
  for (const auto& [label, count] : counts) total += static_cast<double>(count);
  return total;
}

}  // namespace

ClassSkew class_skew(const ClassCounts& shard, const ClassCounts& whole) {
  const double held = total_of(shard);
  const double all = total_of(whole);
  if (held == 0 || all <= 1) return {};
  ClassSkew skew;
  // For a shard drawn without replacement, the count of a class is hypergeometric. Its mean
  // absolute deviation is approximated by that of a normal distribution.
  const double drawn_from_all = (all - held) / (all - 1) / held;
  for (const auto& [label, count] : whole) {
    const auto found = shard.find(label);
    const double here = found == shard.end() ? 0 : static_cast<double>(found->second) / held;
    const double there = static_cast<double>(count) / all;
    skew.distance += std::abs(here - there) / 2;
    const double deviation = std::sqrt(there * (1 - there) * drawn_from_all);
    skew.expected += deviation * std::sqrt(2 / std::numbers::pi) / 2;
  }
  return skew;
}

std::optional<std::string> class_skew_warning(const ClassSkew& skew, const SkewedJob& job) {
  if (!skew.is_skewed()) return {};
  return fmt::format(
      "rank {}: the classes of its shard differ from those of the dataset by {:.0f} % (a random "
      "shard: {:.0f} %), and {} of it is exchanged every epoch. Batch normalisation then learns "
      "the statistics of a few classes and the model loses accuracy; shuffle the samples before "
      "they are staged, {} the fraction to exchange, or use SyncBatchNorm",
      job.rank, 100 * skew.distance, 100 * skew.expected,
      job.fraction == 0 ? "nothing" : fmt::format("{:.3g} %", 100 * job.fraction),
      job.fraction == 0 ? "set" : "raise");
}

}  // namespace millrace::loader::exchange
