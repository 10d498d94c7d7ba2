// The dimensions of a comparison: which numbers of two profiles are compared.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "report/compare_scale.h"
#include "report/scaling.h"

namespace millrace::report {
namespace {

using analyze::EpochStats;
using analyze::FunctionStats;
using analyze::GroupStats;
using analyze::IoTotals;
using analyze::Layer;
using analyze::LayerStats;
using analyze::Profile;
using analyze::TimeSplit;

double number(uint64_t value) { return static_cast<double>(value); }

struct SplitMeasure {
  std::string_view name;
  uint64_t TimeSplit::* member;
};

constexpr std::string_view kWaiting = "waiting for data";
constexpr std::string_view kIoNotOverlapped = "I/O not overlapped";

constexpr SplitMeasure kSplitMeasures[] = {
    {kWaiting, &TimeSplit::wait_ns},
    {kIoNotOverlapped, &TimeSplit::io_exposed_ns},
    {"fetching not overlapped", &TimeSplit::fetch_exposed_ns},
    {"compute", &TimeSplit::compute_ns},
    {"checkpoints", &TimeSplit::checkpoint_ns},
    {"communication", &TimeSplit::communicate_ns},
    {"idle", &TimeSplit::idle_ns},
};

bool same_length(const Judge& judge) {
  return std::fabs(judge.before().units - judge.after().units) <= 0.01 * judge.before().units;
}

bool same_wait_basis(const Judge& judge) {
  return judge.before().profile.time.basis == judge.after().profile.time.basis;
}

// Compares the wall time if the jobs have the same length, otherwise the mean step or epoch, which
// excludes what happens before the first and after the last.
void compare_wall(Judge& judge, const Subject& job) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const bool steps = steps_of_rank(before.profile) > 0 && steps_of_rank(after.profile) > 0;
  const bool epochs = !before.profile.epochs.empty() && !after.profile.epochs.empty();
  if (!same_length(judge) && steps) {
    judge.time(job, "mean step",
               {before.profile.steps.duration_ns.mean, after.profile.steps.duration_ns.mean},
               steps_of_rank(after.profile));
  } else if (!same_length(judge) && epochs) {
    judge.time(job, "mean epoch", {mean_epoch_ns(before.profile), mean_epoch_ns(after.profile)},
               number(after.profile.epochs.size()));
  } else {
    judge.time(job, "wall time",
               {number(before.profile.job.wall_ns) / before.units,
                number(after.profile.job.wall_ns) / after.units},
               after.units);
  }
}

// A part of a rank's time per unit; with `in_epochs` only the time within epochs.
double split_ns(const Side& side, uint64_t TimeSplit::* member, bool in_epochs) {
  if (!in_epochs) return number(side.profile.time.mean.*member) / side.units;
  double sum_ns = 0;
  for (const EpochStats& epoch : side.profile.epochs) sum_ns += number(epoch.time.*member);
  return sum_ns / side.units;
}

void compare_split(Judge& judge, const Subject& job) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const bool in_epochs =
      !same_length(judge) && !before.profile.epochs.empty() && !after.profile.epochs.empty();
  for (const SplitMeasure& measure : kSplitMeasures) {
    if (measure.name == kWaiting && !same_wait_basis(judge)) continue;
    judge.time(
        job, std::string(measure.name),
        {split_ns(before, measure.member, in_epochs), split_ns(after, measure.member, in_epochs)},
        after.units);
  }
}

void compare_quantiles(Judge& judge, const Subject& subject, const std::string& what,
                       const analyze::Distribution& before, const analyze::Distribution& after,
                       double times, double exposed = 1) {
  const uint64_t count = std::min(before.count, after.count);
  if (count >= kMedianCountMin) {
    judge.quantile(subject, "median " + what, {number(before.median), number(after.median)}, times,
                   exposed);
  }
  if (count >= kTailCountMin) {
    judge.quantile(subject, "p99 " + what, {number(before.p99), number(after.p99)}, times * 0.01,
                   exposed);
  }
}

// The share of a layer's summed time that overlaps neither with compute nor with other calls.
// Regions of the application are the program itself, so they count in full.
double exposed_share(const Profile& profile, Layer layer) {
  if (layer == Layer::kApplication) return 1;
  for (const LayerStats& stats : profile.layers) {
    // Without busy_ns, assume that nothing overlaps.
    if (stats.layer != layer || stats.time_ns == 0 || stats.busy_ns == 0) continue;
    return std::clamp((number(stats.busy_ns) - number(stats.overlapped_ns)) / number(stats.time_ns),
                      0.0, 1.0);
  }
  return 1;
}

double exposed_ns(const LayerStats& stats) {
  if (stats.busy_ns == 0) return number(stats.time_ns);
  if (stats.layer == Layer::kApplication) return number(stats.busy_ns);
  return std::max(0.0, number(stats.busy_ns) - number(stats.overlapped_ns));
}

double layer_exposed_ns(const Side& side, Layer layer) {
  for (const LayerStats& stats : side.profile.layers) {
    if (stats.layer == layer) return side.time(exposed_ns(stats));
  }
  return 0;
}

// Items of both sides by key; null if a side lacks one.
template <typename Item, typename KeyOf>
auto match(const std::vector<Item>& before, const std::vector<Item>& after, KeyOf key_of) {
  std::map<decltype(key_of(before.front())), std::pair<const Item*, const Item*>> matched;
  for (const Item& item : before) matched[key_of(item)].first = &item;
  for (const Item& item : after) matched[key_of(item)].second = &item;
  return matched;
}

void compare_function(Judge& judge, const FunctionStats& old_stats, const FunctionStats& new_stats,
                      Subject subject) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const Pair time{before.time(number(old_stats.time_ns)), after.time(number(new_stats.time_ns))};
  const Layer layer = new_stats.layer;
  const double exposed = exposed_share(time.rise() < 0 ? before.profile : after.profile, layer);
  // A call that took over the work of another one has a larger sum, but nothing is lost. So it is a
  // regression only if its layer became slower, too.
  const double layer_rise_ns = layer_exposed_ns(after, layer) - layer_exposed_ns(before, layer);
  if (layer != Layer::kApplication && layer_rise_ns < 0.5 * time.rise() * exposed) {
    subject.judged = false;
  }
  judge.time(subject, "time", time, after.units, exposed);
  // Weighted by the smaller number of calls: additional calls are not the same calls.
  compare_quantiles(
      judge, subject, "latency", old_stats.latency_ns, new_stats.latency_ns,
      std::min(before.time(number(old_stats.count)), after.time(number(new_stats.count))) *
          after.units,
      exposed);
  judge.amount(subject, "calls", Quantity::kCount,
               {before.amount(number(old_stats.count)), after.amount(number(new_stats.count))});
  judge.amount(subject, "bytes", Quantity::kBytes,
               {before.amount(number(old_stats.bytes)), after.amount(number(new_stats.bytes))});
  judge.amount(subject, "errors", Quantity::kCount,
               {before.amount(number(old_stats.errors)), after.amount(number(new_stats.errors))});
  if (std::min(old_stats.size_bytes.count, new_stats.size_bytes.count) >= kMedianCountMin) {
    judge.size(subject, "median size",
               {number(old_stats.size_bytes.median), number(new_stats.size_bytes.median)},
               number(new_stats.size_bytes.count));
  }
}

double io_ns(const IoTotals& io) {
  return number(io.read_ns) + number(io.write_ns) + number(io.metadata_ns);
}

double calls(const IoTotals& io) {
  return number(io.opens) + number(io.reads) + number(io.writes) + number(io.seeks) +
         number(io.syncs) + number(io.metadata) + number(io.maps);
}

// Like exposed_share, but for all I/O on files.
double exposed_io_share(const Side& side) {
  double sum_ns = 0;
  for (const GroupStats& kind : side.profile.kinds) sum_ns += io_ns(kind.io);
  if (sum_ns <= 0 || side.profile.time.mean.wall_ns == 0) return 1;
  return std::clamp(number(side.profile.time.mean.io_exposed_ns) * side.ranks / sum_ns, 0.0, 1.0);
}

void compare_group(Judge& judge, const Subject& subject, const GroupStats& old_stats,
                   const GroupStats& new_stats) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const Pair time{before.time(io_ns(old_stats.io)), after.time(io_ns(new_stats.io))};
  const double exposed = exposed_io_share(time.rise() < 0 ? before : after);
  judge.time(subject, "time", time, after.units, exposed);
  const auto amount = [&](const char* measure, Quantity quantity, double old_sum, double new_sum) {
    judge.amount(subject, measure, quantity, {before.amount(old_sum), after.amount(new_sum)});
  };
  amount("calls", Quantity::kCount, calls(old_stats.io), calls(new_stats.io));
  amount("bytes read", Quantity::kBytes, number(old_stats.io.bytes_read),
         number(new_stats.io.bytes_read));
  amount("bytes written", Quantity::kBytes, number(old_stats.io.bytes_written),
         number(new_stats.io.bytes_written));
}

// Programs and libraries are loaded once per job, so their time does not scale with its length.
void compare_once(Judge& judge, const Subject& subject, const GroupStats& old_stats,
                  const GroupStats& new_stats) {
  const Pair time{io_ns(old_stats.io) / judge.before().ranks,
                  io_ns(new_stats.io) / judge.after().ranks};
  judge.time(subject, "time per job", time, 1,
             exposed_io_share(time.rise() < 0 ? judge.before() : judge.after()));
}

void compare_groups(Judge& judge, By by, bool judged, const std::vector<GroupStats>& before,
                    const std::vector<GroupStats>& after) {
  const std::string_view system =
      analyze::kFileKindNames[static_cast<size_t>(analyze::FileKind::kSystem)];
  const auto name_of = [](const GroupStats& group) { return group.name; };
  for (const auto& [name, pair] : match(before, after, name_of)) {
    const auto& [old_stats, new_stats] = pair;
    const Subject subject{.by = by, .name = name, .judged = judged};
    if (old_stats == nullptr) {
      judge.appearance(subject, Change::kNew, judge.after().time(io_ns(new_stats->io)),
                       exposed_io_share(judge.after()), calls(new_stats->io));
    } else if (new_stats == nullptr) {
      judge.appearance(subject, Change::kGone, judge.before().time(io_ns(old_stats->io)),
                       exposed_io_share(judge.before()), calls(old_stats->io));
    } else if (by == By::kKind && name == system) {
      compare_once(judge, subject, *old_stats, *new_stats);
    } else {
      compare_group(judge, subject, *old_stats, *new_stats);
    }
  }
}

// Whether one item changed differently from the mean of all.
bool stands_out(const Judge& judge, Pair one, Pair mean, double floor) {
  const double own_rise = std::fabs(one.rise() - mean.rise());
  return own_rise >= judge.threshold() * one.before && own_rise >= floor;
}

void compare_rank_bytes(Judge& judge, bool judged) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const auto sum = [](const Side& side) {
    double bytes = 0;
    for (const auto& rank : side.profile.ranks) bytes += number(rank.io.bytes_read);
    return bytes / side.ranks / side.units;
  };
  const Pair mean{sum(before), sum(after)};
  const auto name_of = [](const analyze::RankLoad& rank) { return rank.name; };
  for (const auto& [name, pair] : match(before.profile.ranks, after.profile.ranks, name_of)) {
    const auto& [old_rank, new_rank] = pair;
    if (old_rank == nullptr || new_rank == nullptr) continue;
    const Pair bytes{number(old_rank->io.bytes_read) / before.units,
                     number(new_rank->io.bytes_read) / after.units};
    const bool alone = stands_out(judge, bytes, mean, kBytesFloor / after.units);
    judge.amount({.by = By::kRank, .name = name, .judged = judged && alone, .minor = !alone},
                 "bytes read", Quantity::kBytes, bytes);
  }
}

}  // namespace

void compare_job(Judge& judge) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const Subject job{.by = By::kJob, .name = "job"};
  compare_wall(judge, job);
  compare_split(judge, job);
  const double steps = steps_of_rank(after.profile);
  compare_quantiles(judge, job, "step", before.profile.steps.duration_ns,
                    after.profile.steps.duration_ns, steps);
  if (same_wait_basis(judge)) {
    compare_quantiles(judge, job, "wait per step", before.profile.steps.wait_ns,
                      after.profile.steps.wait_ns, steps);
  }
  judge.amount(job, "bytes read", Quantity::kBytes,
               {before.amount(number(before.profile.job.bytes_read)),
                after.amount(number(after.profile.job.bytes_read))});
  judge.amount(job, "bytes written", Quantity::kBytes,
               {before.amount(number(before.profile.job.bytes_written)),
                after.amount(number(after.profile.job.bytes_written))});
}

void compare_layers(Judge& judge, bool judged) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const auto layer_of = [](const LayerStats& stats) { return stats.layer; };
  for (const auto& [layer, pair] : match(before.profile.layers, after.profile.layers, layer_of)) {
    const auto& [old_stats, new_stats] = pair;
    const Subject subject{.by = By::kLayer,
                          .name = std::string(analyze::kLayerNames[static_cast<size_t>(layer)]),
                          .judged = judged};
    if (old_stats == nullptr || new_stats == nullptr) {
      const bool is_new = old_stats == nullptr;
      const LayerStats& only = is_new ? *new_stats : *old_stats;
      judge.appearance(subject, is_new ? Change::kNew : Change::kGone,
                       (is_new ? after : before).time(exposed_ns(only)), 1, number(only.count));
      continue;
    }
    const auto amount = [&](const char* measure, Quantity quantity, uint64_t LayerStats::* member) {
      judge.amount(
          subject, measure, quantity,
          {before.amount(number(old_stats->*member)), after.amount(number(new_stats->*member))});
    };
    judge.time(subject, layer == Layer::kApplication ? "time" : "time not overlapped",
               {before.time(exposed_ns(*old_stats)), after.time(exposed_ns(*new_stats))},
               after.units);
    amount("calls", Quantity::kCount, &LayerStats::count);
    amount("bytes read", Quantity::kBytes, &LayerStats::bytes_read);
    amount("bytes written", Quantity::kBytes, &LayerStats::bytes_written);
    amount("metadata calls", Quantity::kCount, &LayerStats::metadata_count);
  }
}

void compare_functions(Judge& judge, bool judged) {
  const auto key_of = [](const FunctionStats& stats) { return std::pair(stats.layer, stats.name); };
  const Side& before = judge.before();
  const Side& after = judge.after();
  for (const auto& [key, pair] : match(before.profile.functions, after.profile.functions, key_of)) {
    const auto& [old_stats, new_stats] = pair;
    const auto& [layer, name] = key;
    const Subject subject{
        .by = By::kFunction,
        .name = fmt::format("{} {}", analyze::kLayerNames[static_cast<size_t>(layer)], name),
        .judged = judged};
    if (old_stats == nullptr) {
      judge.appearance(subject, Change::kNew, after.time(number(new_stats->time_ns)),
                       exposed_share(after.profile, layer), number(new_stats->count));
    } else if (new_stats == nullptr) {
      judge.appearance(subject, Change::kGone, before.time(number(old_stats->time_ns)),
                       exposed_share(before.profile, layer), number(old_stats->count));
    } else {
      compare_function(judge, *old_stats, *new_stats, subject);
    }
  }
}

void compare_kinds(Judge& judge, bool judged) {
  const Profile& before = judge.before().profile;
  const Profile& after = judge.after().profile;
  compare_groups(judge, By::kKind, judged, before.kinds, after.kinds);
  compare_groups(judge, By::kExtension, judged, before.extensions, after.extensions);
}

void compare_ranks(Judge& judge, bool judged) {
  const Side& before = judge.before();
  const Side& after = judge.after();
  const auto name_of = [](const TimeSplit& split) { return split.name; };
  for (const auto& [name, pair] :
       match(before.profile.time.ranks, after.profile.time.ranks, name_of)) {
    const auto& [old_split, new_split] = pair;
    if (old_split == nullptr || new_split == nullptr) continue;
    for (const SplitMeasure& measure : kSplitMeasures) {
      if (measure.name == kWaiting && !same_wait_basis(judge)) continue;
      const Pair time{number(old_split->*measure.member) / before.units,
                      number(new_split->*measure.member) / after.units};
      const Pair mean{split_ns(before, measure.member, false),
                      split_ns(after, measure.member, false)};
      const bool alone = stands_out(judge, time, mean, judge.time_floor_ns() / after.units);
      judge.time({.by = By::kRank, .name = name, .judged = judged && alone, .minor = !alone},
                 std::string(measure.name), time, after.units);
    }
  }
  compare_rank_bytes(judge, judged);
}

void compare_epochs(Judge& judge) {
  const auto number_of = [](const EpochStats& epoch) { return epoch.epoch; };
  auto epochs = match(judge.before().profile.epochs, judge.after().profile.epochs, number_of);
  std::erase_if(epochs, [](const auto& entry) {
    return entry.second.first == nullptr || entry.second.second == nullptr;
  });
  bool same_steps = true;
  for (const auto& [index, pair] : epochs) same_steps &= pair.first->steps == pair.second->steps;
  const auto units = [&](const EpochStats& epoch) {
    return same_steps ? 1 : std::max(1.0, number(epoch.steps));
  };
  const auto time_of = [&](const EpochStats& epoch) {
    return (number(epoch.end_ns) - number(epoch.begin_ns)) / units(epoch);
  };
  Pair mean;
  for (const auto& [index, pair] : epochs) {
    mean.before += time_of(*pair.first) / number(epochs.size());
    mean.after += time_of(*pair.second) / number(epochs.size());
  }
  for (const auto& [index, pair] : epochs) {
    const auto& [old_epoch, new_epoch] = pair;
    const double times = units(*new_epoch);
    const Pair time{time_of(*old_epoch), time_of(*new_epoch)};
    const bool alone = stands_out(judge, time, mean, judge.time_floor_ns() / times);
    const Subject subject{
        .by = By::kEpoch, .name = fmt::format("epoch {}", index), .judged = alone, .minor = !alone};
    judge.time(subject, same_steps ? "time" : "time per step", time, times);
    if (!same_wait_basis(judge)) continue;
    judge.time(subject, same_steps ? std::string(kWaiting) : "wait per step",
               {number(old_epoch->time.wait_ns) / units(*old_epoch),
                number(new_epoch->time.wait_ns) / times},
               times);
  }
}

}  // namespace millrace::report
