#include "model/step_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/numbers/statistics.h"

namespace millrace::model {
namespace {

using analyze::Profile;
using analyze::StepStats;

constexpr double kLeftOutTimes = 10;  // of the median: an evaluation or a pause, not compute

double seconds(double ns) { return ns / 1e9; }

// By rank, then by time.
std::vector<StepStats> steps_in_order(const Profile& profile) {
  std::vector<StepStats> steps = profile.steps.all;
  std::sort(steps.begin(), steps.end(), [](const StepStats& a, const StepStats& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.begin_ns < b.begin_ns;
  });
  return steps;
}

struct Span {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

uint64_t overlap(Span a, Span b) {
  const uint64_t begin = std::max(a.begin_ns, b.begin_ns);
  const uint64_t end = std::min(a.end_ns, b.end_ns);
  return end > begin ? end - begin : 0;
}

// Time within `span` in which the rank saved, restored or evaluated.
uint64_t other_ns(const Profile& profile, uint32_t rank, Span span) {
  uint64_t sum = 0;
  for (const analyze::Stretch& stretch : profile.stretches) {
    if (stretch.rank != rank || stretch.role == analyze::Role::kEpoch) continue;
    sum += overlap(span, {stretch.begin_ns, stretch.end_ns});
  }
  return sum;
}

double working_ns(const Profile& profile, const StepStats& step, uint64_t next_ns) {
  const uint64_t all_ns = next_ns - step.begin_ns;
  const uint64_t not_ns = step.wait_ns + other_ns(profile, step.rank, {step.begin_ns, next_ns});
  return static_cast<double>(all_ns - std::min(all_ns, not_ns));
}

std::vector<double> working_times(const Profile& profile) {
  const std::vector<StepStats> steps = steps_in_order(profile);
  std::vector<double> times;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const StepStats& next = steps[i + 1];
    // The gap after an epoch has evaluations and the start of the next one.
    if (next.rank != steps[i].rank || next.epoch != steps[i].epoch) continue;
    times.push_back(working_ns(profile, steps[i], next.begin_ns));
  }
  return times;
}

StepTimes times_of(std::vector<double> times) {
  std::vector<double> sorted = times;
  const double limit = kLeftOutTimes * quantile(sorted, 0.5);
  StepTimes result;
  const auto kept_end =
      std::remove_if(times.begin(), times.end(), [&](double time) { return time > limit; });
  result.left_out = static_cast<uint64_t>(times.end() - kept_end);
  times.erase(kept_end, times.end());
  result.count = times.size();
  if (times.empty()) return result;
  double sum = 0;
  for (const double time : times) sum += time;
  const double mean = sum / static_cast<double>(times.size());
  double squares = 0;
  for (const double time : times) squares += (time - mean) * (time - mean);
  result.mean_s = seconds(mean);
  result.stdev_s = seconds(std::sqrt(squares / static_cast<double>(times.size())));
  return result;
}

// What the loop did between its regions, for each step.
double stalled_ns(const Profile& profile) {
  double sum = 0;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase == "in training") sum += static_cast<double>(stall.stall_ns);
  }
  const uint64_t count = profile.steps.compute_ns.count;
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

StepTimes times_of_summary(const Profile& profile) {
  constexpr double kQuartilesOfNormal = 1.349;  // between the quartiles, in standard deviations
  const analyze::Distribution& compute = profile.steps.compute_ns;
  StepTimes result{.count = compute.count, .by_summary = true};
  if (compute.count == 0) return result;
  result.mean_s = seconds(compute.mean + stalled_ns(profile));
  result.stdev_s = seconds(static_cast<double>(compute.p75 - compute.p25) / kQuartilesOfNormal);
  return result;
}

struct Gaps {
  double sum_ns = 0;
  uint64_t count = 0;
};

// From the end of the last step of an epoch to the first of the next, without checkpoints.
Gaps gaps_of(const Profile& profile) {
  const std::vector<StepStats> steps = steps_in_order(profile);
  Gaps gaps;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const StepStats& last = steps[i];
    const StepStats& next = steps[i + 1];
    if (next.rank != last.rank || next.epoch == last.epoch) continue;
    const uint64_t end_ns = last.begin_ns + last.duration_ns;
    if (next.begin_ns <= end_ns) continue;
    uint64_t not_ns = 0;
    for (const analyze::Stretch& stretch : profile.stretches) {
      const bool is_other =
          stretch.role == analyze::Role::kCheckpoint || stretch.role == analyze::Role::kRestore;
      if (stretch.rank != last.rank || !is_other) continue;
      not_ns += overlap({end_ns, next.begin_ns}, {stretch.begin_ns, stretch.end_ns});
    }
    const uint64_t gap_ns = next.begin_ns - end_ns;
    gaps.sum_ns += static_cast<double>(gap_ns - std::min(gap_ns, not_ns));
    ++gaps.count;
  }
  return gaps;
}

double setup_ns(const Profile& profile) {
  double sum = 0;
  uint64_t count = 0;
  for (const analyze::FunctionStats& function : profile.functions) {
    if (function.role != analyze::Role::kSetup) continue;
    sum += static_cast<double>(function.time_ns);
    count += function.count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

StepTimes step_times_of(const Profile& profile) {
  std::vector<double> times = working_times(profile);
  return times.empty() ? times_of_summary(profile) : times_of(std::move(times));
}

double eval_step_s(const Profile& profile, const Counts& counts, const StepTimes& times) {
  const Gaps gaps = gaps_of(profile);
  if (gaps.count == 0 || counts.eval_batches == 0) return 0;
  const auto passes = static_cast<double>(counts.eval_passes * counts.ranks);
  const auto epochs = static_cast<double>(counts.epochs * counts.ranks);
  const double gap_ns = gaps.sum_ns / static_cast<double>(gaps.count);
  // Waiting outside of steps is that of evaluations.
  double waits_ns = 0;
  for (const analyze::RankLoad& rank : profile.ranks) waits_ns += static_cast<double>(rank.wait_ns);
  waits_ns = std::max(waits_ns - static_cast<double>(profile.steps.wait_ns.sum), 0.0) / passes;
  // The work of the last step goes on after its regions.
  const double rest_ns = std::max(times.mean_s * 1e9 - profile.steps.compute_ns.mean, 0.0);
  const double per_gap = passes / epochs;
  const double work_ns =
      gap_ns - rest_ns - (waits_ns + setup_ns(profile)) * per_gap - setup_ns(profile);
  const double batches = static_cast<double>(counts.eval_batches) * per_gap;
  return std::max(seconds(work_ns / batches), 0.0);
}

bench::TimeModel time_model_of(double mean_s, double stdev_s) {
  using Kind = bench::TimeModel::Kind;
  constexpr double kConstantMax = 0.02;  // of the mean
  constexpr double kNormalMax = 0.3;     // a time below 0 is then rarer than 1 in 2,000
  if (stdev_s <= kConstantMax * mean_s) return {.kind = Kind::kConstant, .first = mean_s};
  if (stdev_s <= kNormalMax * mean_s) {
    return {.kind = Kind::kNormal, .first = mean_s, .second = stdev_s};
  }
  const double scale = stdev_s * stdev_s / mean_s;
  return {.kind = Kind::kGamma, .first = mean_s / scale, .second = scale};
}

}  // namespace millrace::model
