// The time metric: records what each rank was doing at any time, and splits the time accordingly at
// the end.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "analyze/context.h"
#include "analyze/profile/profile.h"
#include "analyze/scan.h"
#include "analyze/time/time_sweep.h"
#include "base/concurrency/mutex.h"
#include "base/system/cpus.h"

namespace millrace::analyze {
namespace {

using SpansByClass = std::array<std::vector<Interval>, kTimeClassCount>;

void collect_spans(const Block& block, SpansByClass& spans) {
  const Context& context = block.context;
  const trace::EventColumns& columns = block.columns;
  const bool is_main = context.groups[static_cast<size_t>(block.group)].main == block.process;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const CallTraits& traits = traits_of(columns.call[i]);
    TimeClass of{};
    if (traits.io) {
      of = class_of_io(traits.layer, is_main);
    } else if (traits.region) {
      const Role role = context.role(columns.file[i]);
      const bool waits =
          layer_of(role) == Layer::kLoader && is_waiting(context, role, columns.thread[i]);
      of = class_of_region(role, waits);
      if (of == TimeClass::kCompute && context.knows_device(block.group, columns.begin_ns[i])) {
        of = TimeClass::kLaunch;
      }
    } else {
      continue;
    }
    const uint64_t begin_ns = columns.begin_ns[i];
    const uint64_t end_ns = begin_ns + columns.duration_ns[i];
    // A span that wraps around the clock is invalid and is ignored.
    spans[static_cast<size_t>(of)].push_back({begin_ns, end_ns});
  }
}

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// How long a rank, a host or the job ran, and when it trained. Without training, `training` is
// empty.
struct Wall {
  Interval whole{~uint64_t{0}, 0};
  Interval training{~uint64_t{0}, 0};

  uint64_t wall_ns() const { return less(whole.end_ns, whole.begin_ns); }
  uint64_t startup_ns() const {
    return training.end_ns == 0 ? 0 : less(training.begin_ns, whole.begin_ns);
  }
};

void join(const Interval& span, Interval& into) {
  into.begin_ns = std::min(into.begin_ns, span.begin_ns);
  into.end_ns = std::max(into.end_ns, span.end_ns);
}

void join(const Group& group, Wall& into) {
  join({group.begin_ns, group.end_ns}, into.whole);
  if (group.training.end_ns > 0) join(group.training, into.training);
}

// Of one rank, or sums over `count` ranks.
struct WallTime {
  uint64_t wall_ns = 0;
  uint64_t startup_ns = 0;
  uint64_t count = 1;

  WallTime(uint64_t wall, uint64_t startup, uint64_t ranks)
      : wall_ns(wall), startup_ns(startup), count(ranks) {}
  WallTime(const Wall& wall) : WallTime(wall.wall_ns(), wall.startup_ns(), 1) {}
};

// The lengths are sums over the ranks. Returns the average of one rank.
TimeSplit split_of(std::string name, const Lengths& of, const WallTime& wall) {
  const uint64_t wall_ns = wall.wall_ns;
  const uint64_t count = wall.count;
  const uint64_t training_ns = of[Measure::kTraining];
  const auto share = [count](uint64_t sum_ns) { return sum_ns / count; };
  const uint64_t io_or_compute_ns = of[Measure::kIoOrCompute];
  TimeSplit split;
  split.name = std::move(name);
  split.wall_ns = share(wall_ns);
  split.startup_ns = share(wall.startup_ns);
  split.training_ns = share(training_ns == 0 ? wall_ns : training_ns);
  split.compute_ns = share(of[Measure::kCompute]);
  split.io_ns = share(of[Measure::kIo]);
  split.fetch_ns = share(of[Measure::kFetch]);
  split.decode_ns = share(of[Measure::kDecode]);
  split.transform_ns = share(of[Measure::kTransform]);
  split.checkpoint_ns = share(of[Measure::kCheckpoint]);
  split.communicate_ns = share(of[Measure::kCommunicate]);
  split.wait_ns = share(of.wait());
  split.wait_overlapped_ns = share(less(of[Measure::kHostWait], of.wait()));
  split.launch_ns = share(of[Measure::kLaunch]);
  split.copy_ns = share(of[Measure::kCopy]);
  split.io_overlapped_ns = share(of[Measure::kIo] + of[Measure::kCompute] - io_or_compute_ns);
  split.io_exposed_ns = share(io_or_compute_ns - of[Measure::kCompute]);
  split.fetch_exposed_ns = share(of[Measure::kBringOrCompute] - of[Measure::kCompute]);
  split.compute_exposed_ns = share(io_or_compute_ns - of[Measure::kIo]);
  split.idle_ns = share(less(wall_ns, of[Measure::kAny]));
  split.step_ns = share(of[Measure::kStep]);
  split.wait_share =
      training_ns == 0 ? ratio(of.wait(), wall_ns) : ratio(of.wait_in_training(), training_ns);
  split.step_wait_share = ratio(of.wait_in_steps(), of[Measure::kStep]);
  return split;
}

// Ranks without compute have nothing to measure.
ComputeBasis compute_basis_of(const Context& context, const TimePlan& plan,
                              const SweptTime& swept) {
  bool some_device = false;
  bool some_regions = false;
  for (size_t i = 0; i < context.groups.size(); ++i) {
    if (!context.groups[i].trains) continue;
    const bool computes = Lengths(plan, swept.groups[i].data())[Measure::kCompute] > 0;
    const bool knows_device = !context.groups[i].device.empty();
    some_device = some_device || knows_device;
    some_regions = some_regions || (computes && !knows_device);
  }
  if (!some_device) return ComputeBasis::kRegions;
  return some_regions ? ComputeBasis::kBoth : ComputeBasis::kDevice;
}

void write_hosts(const Context& context, const TimePlan& plan, const SweptTime& swept,
                 SplitOfTime& time) {
  std::vector<Wall> walls(context.hosts.size());
  for (const Group& group : context.groups) {
    if (!group.trains) continue;
    join(group, walls[group.host]);
  }
  for (size_t i = 0; i < walls.size(); ++i) {
    if (walls[i].whole.end_ns == 0) continue;  // no rank runs on this host
    time.hosts.push_back(split_of(context.hosts[i], {plan, swept.hosts[i].data()}, walls[i]));
  }
}

void write_layers(const TimePlan& plan, const SweptTime& swept, std::vector<LayerStats>& layers) {
  for (LayerStats& stats : layers) {
    for (const auto& of_slot : swept.groups) {
      const Lengths of(plan, of_slot.data());
      const uint64_t busy_ns = of[of_layer(Measure::kLayer, stats.layer)];
      stats.busy_ns += busy_ns;
      stats.overlapped_ns +=
          busy_ns + of[Measure::kCompute] - of[of_layer(Measure::kLayerOrCompute, stats.layer)];
    }
  }
}

// Exact, because all steps are in memory anyway. Reorders `values`.
Distribution distribution_of(std::vector<uint64_t>& values) {
  Distribution of;
  if (values.empty()) return of;
  std::sort(values.begin(), values.end());
  const auto at = [&values](uint64_t percent) {
    return values[(values.size() * percent + 99) / 100 - 1];
  };
  of.count = values.size();
  of.sum = std::accumulate(values.begin(), values.end(), uint64_t{0});
  of.min = values.front();
  of.p25 = at(25);
  of.mean = static_cast<double>(of.sum) / static_cast<double>(of.count);
  of.median = at(50);
  of.p75 = at(75);
  of.p95 = at(95);
  of.p99 = at(99);
  of.max = values.back();
  return of;
}

std::vector<StepStats> list_steps(const Context& context, const SweptTime& swept) {
  std::vector<StepStats> list;
  uint32_t rank = 0;
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    if (!context.groups[group].trains) continue;
    const auto steps = context.epochs.steps(group);
    for (size_t i = 0; i < steps.size(); ++i) {
      list.push_back({.epoch = steps[i].epoch,
                      .step = steps[i].step,
                      .rank = rank,
                      .begin_ns = less(steps[i].begin_ns, context.begin_ns),
                      .duration_ns = steps[i].end_ns - steps[i].begin_ns,
                      .wait_ns = swept.step_wait_ns[group][i]});
    }
    ++rank;
  }
  return list;
}

// Writes Profile::time, and the busy and overlapped time of the layers in the profile.
void write_time(const Context& context, const TimePlan& plan, const SweptTime& swept,
                Profile& profile) {
  SplitOfTime& time = profile.time;
  std::vector<uint64_t> sum(plan.slots.size());
  uint64_t wall_ns = 0;
  uint64_t startup_ns = 0;
  Wall job;
  for (size_t i = 0; i < context.groups.size(); ++i) {
    const Group& group = context.groups[i];
    if (!group.trains) continue;
    Wall wall;
    join(group, wall);
    join(group, job);
    time.ranks.push_back(split_of(group.name, {plan, swept.groups[i].data()}, wall));
    wall_ns += wall.wall_ns();
    startup_ns += wall.startup_ns();
    for (size_t slot = 0; slot < sum.size(); ++slot) sum[slot] += swept.groups[i][slot];
  }
  const uint64_t count = std::max<size_t>(1, time.ranks.size());
  time.mean = split_of("mean", {plan, sum.data()}, {wall_ns, startup_ns, count});
  write_hosts(context, plan, swept, time);
  job.whole = {context.begin_ns, context.end_ns};
  time.job = split_of("job", {plan, swept.job.data()}, job);
  write_layers(plan, swept, profile.layers);
}

// Writes Profile::epochs, without I/O and actions.
void write_epochs(const Context& context, const TimePlan& plan, const SweptTime& swept,
                  Profile& profile) {
  std::map<int64_t, uint64_t> most_steps;  // the largest count of any rank, by epoch
  for (uint32_t group = 0; group < context.groups.size(); ++group) {
    std::map<int64_t, uint64_t> counts;
    for (const StepSpan& step : context.epochs.steps(group)) ++counts[step.epoch];
    for (const auto& [epoch, count] : counts) {
      most_steps[epoch] = std::max(most_steps[epoch], count);
    }
  }
  for (const SweptEpoch& epoch : swept.epochs) {
    EpochStats& stats = profile.epochs.emplace_back();
    stats.epoch = epoch.epoch;
    stats.begin_ns = less(epoch.begin_ns, context.begin_ns);
    stats.end_ns = less(epoch.end_ns, context.begin_ns);
    stats.steps = most_steps[epoch.epoch];
    stats.time = split_of("mean", {plan, epoch.lengths.data()}, {epoch.wall_ns, 0, epoch.ranks});
  }
}

// Writes Profile::steps.
void write_steps(const Context& context, const Limits& limits, const SweptTime& swept,
                 Profile& profile) {
  std::vector<StepStats> list = list_steps(context, swept);
  std::vector<uint64_t> values;
  values.reserve(list.size());
  for (const StepStats& step : list) values.push_back(step.duration_ns);
  profile.steps.duration_ns = distribution_of(values);
  values.clear();
  for (const StepStats& step : list) values.push_back(step.wait_ns);
  profile.steps.wait_ns = distribution_of(values);
  values.clear();
  for (const StepStats& step : list) values.push_back(less(step.duration_ns, step.wait_ns));
  profile.steps.compute_ns = distribution_of(values);
  if (limits.all_steps) profile.steps.all = list;
  const size_t count = std::min(limits.slowest_steps, list.size());
  const auto slower = [](const StepStats& a, const StepStats& b) {
    if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
    return a.rank != b.rank ? a.rank < b.rank : a.begin_ns < b.begin_ns;
  };
  std::partial_sort(list.begin(), list.begin() + static_cast<ptrdiff_t>(count), list.end(), slower);
  list.resize(count);
  profile.steps.slowest = std::move(list);
}

class TimeMetric final : public Metric {
 public:
  TimeMetric(const Context& context, const Limits& limits) : context_(context), limits_(limits) {}

  void observe(const Block& block) override {
    // Reused for all blocks of a thread: it takes one or two megabytes.
    thread_local SpansByClass spans;
    for (auto& list : spans) list.clear();
    collect_spans(block, spans);
    TimeRuns runs;
    for (size_t i = 0; i < spans.size(); ++i) {
      runs.add(time_tag(block.group, static_cast<TimeClass>(i)), spans[i]);
    }
    const MutexLock lock(mutex_);
    runs_.append(std::move(runs));
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    runs_.save(out);
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    return runs_.merge(saved, [this](uint64_t tag) {
      return tag >> kTimeClassBits < context_.groups.size() &&
             (tag & kTimeClassMask) < static_cast<uint64_t>(TimeClass::kStep);
    });
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    const TimeSet present = swept_classes(context, runs_);
    profile.time.basis = context.has_wait_regions ? WaitBasis::kRegions : basis_of(present);
    const TimePlan plan(present, profile.time.basis);
    const auto swept = sweep_time(context, runs_, plan, usable_cpu_count());
    if (!swept.ok()) {
      profile.problems.push_back("the time split could not be computed: " +
                                 swept.error().message());
      return;
    }
    profile.time.compute_basis = compute_basis_of(context, plan, *swept);
    write_time(context, plan, *swept, profile);
    write_epochs(context, plan, *swept, profile);
    write_steps(context, limits_, *swept, profile);
  }

 private:
  const Context& context_;
  const Limits limits_;
  mutable Mutex mutex_;
  TimeRuns runs_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_time_metric(const Context& context, const Limits& limits) {
  return std::make_unique<TimeMetric>(context, limits);
}

}  // namespace millrace::analyze
