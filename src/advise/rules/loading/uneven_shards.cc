// uneven-shards: some ranks have more data than others, which wait for them.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Loads {
  const analyze::RankLoad* most = nullptr;
  bool in_samples = false;  // else in bytes
  uint64_t mean = 0;        // of samples or bytes
  uint64_t wait_mean_ns = 0;
  uint64_t steps_mean = 0;
};

uint64_t amount(const analyze::RankLoad& rank, bool in_samples) {
  return in_samples ? rank.samples : rank.data_bytes_read;
}

Loads loads_in(const Case& given, bool in_samples) {
  Loads loads;
  loads.in_samples = in_samples;
  for (const analyze::RankLoad& rank : given.profile.ranks) {
    loads.mean += amount(rank, loads.in_samples);
    loads.wait_mean_ns += rank.wait_ns;
    loads.steps_mean += rank.steps;
    if (loads.most == nullptr ||
        amount(rank, loads.in_samples) > amount(*loads.most, loads.in_samples)) {
      loads.most = &rank;
    }
  }
  const uint64_t count = std::max<uint64_t>(given.profile.ranks.size(), 1);
  loads.mean /= count;
  loads.wait_mean_ns /= count;
  loads.steps_mean /= count;
  return loads;
}

double excess_of(const Loads& loads) {
  return ratio(amount(*loads.most, loads.in_samples), loads.mean);
}

// Ranks with equally many samples may have samples of different sizes.
Loads loads_of(const Case& given) {
  const Loads samples = loads_in(given, /*in_samples=*/true);
  const Loads bytes = loads_in(given, /*in_samples=*/false);
  const bool all_counted = std::all_of(given.profile.ranks.begin(), given.profile.ranks.end(),
                                       [](const auto& rank) { return rank.samples > 0; });
  return all_counted && 1.1 * excess_of(samples) >= excess_of(bytes) ? samples : bytes;
}

Finding uneven_shards_text(const Loads& loads, bool has_more_steps) {
  const analyze::RankLoad& most = *loads.most;
  const auto text = [&](uint64_t value) {
    return loads.in_samples ? counted(value, "sample", "samples") : format_bytes(value);
  };
  return {
      .kind = "load imbalance",
      .details = fmt::format("{} loads {:.1f} times the mean", most.name, excess_of(loads)),
      .evidence = {at("ranks:" + most.name, "{} loaded {}; the mean is {}", most.name,
                      text(amount(most, loads.in_samples)), text(loads.mean)),
                   {has_more_steps
                        ? fmt::format("it had {} steps; the mean is {}", most.steps,
                                      loads.steps_mean)
                        : fmt::format("it waited {} for data; the mean is {}",
                                      duration(most.wait_ns), duration(loads.wait_mean_ns)),
                    "ranks:" + most.name}},
      .threshold =
          "a quarter more than the mean: ranks exchange gradients every step, so the slowest sets "
          "the pace; smaller differences come from files of different sizes",
      .changes =
          {{"pytorch",
            "shard by samples, not by files: DistributedSampler gives every rank the same number; "
            "for an IterableDataset make the number of files a multiple of ranks times workers"},
           {"tf.data",
            "shard by samples, not by files: shard() after reading; or make files of equal size, "
            "and their number a multiple of the ranks"},
           {"any",
            "balance by bytes: sort the files by size, and give each to the rank with the fewest "
            "bytes so far"}},
      .gain = {.how = has_more_steps ? "the steps of this rank above the mean"
                                     : "the waiting of this rank above the mean: the others wait "
                                       "for it"}};
}

}  // namespace

Judged judge_uneven_shards(const Case& given) {
  constexpr double kExcessMin = 1.25;
  if (given.job.ranks < 2 || given.profile.ranks.size() < 2) return {};
  const Loads loads = loads_of(given);
  const analyze::RankLoad& most = *loads.most;
  const double excess = excess_of(loads);
  if (excess < kExcessMin) return {};
  // With an equal share it has fewer steps, or the same number with less waiting.
  const bool has_more_steps = ratio(most.steps, loads.steps_mean) >= kExcessMin;
  const uint64_t saved_ns = has_more_steps ? scaled(most.wait_ns + most.compute_ns, 1 - 1 / excess)
                                           : minus(most.wait_ns, loads.wait_mean_ns);
  if (!given.waiting.matters(saved_ns)) return {};
  Finding text = uneven_shards_text(loads, has_more_steps);
  return has_more_steps ? less_time(given.waiting, saved_ns, std::move(text))
                        : less_waiting(given.waiting, saved_ns, std::move(text));
}

}  // namespace millrace::advise
