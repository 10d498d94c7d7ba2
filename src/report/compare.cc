#include "report/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/text/units.h"
#include "report/compare_scale.h"

namespace millrace::report {
namespace {

using analyze::Profile;

// Units of work of one rank; 0: unknown.
double units_of(const Profile& profile, Per per) {
  switch (per) {
    case Per::kStep:
      return steps_of_rank(profile);
    case Per::kEpoch:
      return static_cast<double>(profile.job.epochs);
    case Per::kGigabyte:
      return static_cast<double>(profile.job.dataset_bytes_read) / 1e9;
    case Per::kJob:
      break;
  }
  return 1;
}

Per choose_unit(const Profile& before, const Profile& after, const CompareOptions& options,
                std::vector<std::string>& notes) {
  const auto both_know = [&](Per per) {
    return units_of(before, per) > 0 && units_of(after, per) > 0;
  };
  if (options.per) {
    if (both_know(*options.per)) return *options.per;
    notes.push_back(fmt::format("at least one job has no {} to compare by: comparing whole jobs",
                                kPerNames[static_cast<size_t>(*options.per)]));
    return Per::kJob;
  }
  for (const Per per : {Per::kStep, Per::kEpoch}) {
    if (both_know(per)) return per;
  }
  notes.emplace_back(
      "the jobs have neither steps nor epochs in common: comparing whole jobs. If they did "
      "different amounts of work, compare by data read: --per gigabyte");
  return Per::kJob;
}

Compared describe(const Side& side) {
  const Profile& profile = side.profile;
  return {.name = profile.job.traces.empty() ? "" : profile.job.traces.front(),
          .ranks = profile.job.ranks,
          .hosts = profile.job.hosts.size(),
          .epochs = profile.job.epochs,
          .steps = steps_of_rank(profile),
          .units = side.units,
          .wall_ns = profile.job.wall_ns,
          .wait_share = profile.time.mean.wait_share};
}

void note_only_in(const std::set<std::string>& names, std::string_view side, std::string_view what,
                  std::vector<std::string>& notes) {
  if (names.empty()) return;
  notes.push_back(fmt::format("{} {}{} only {}: {}{}", names.size(), what,
                              names.size() == 1 ? " exists" : "s exist", side, *names.begin(),
                              names.size() == 1 ? "" : ", ..."));
}

template <typename List, typename Name>
void note_unmatched(const List& before, const List& after, Name name, std::string_view what,
                    std::vector<std::string>& notes) {
  std::set<std::string> old_names;
  std::set<std::string> new_names;
  for (const auto& item : before) old_names.insert(name(item));
  for (const auto& item : after) new_names.insert(name(item));
  // Nothing to match if a job marks none at all.
  if (old_names.empty() || new_names.empty()) return;
  std::set<std::string> gone;
  std::set<std::string> added;
  std::set_difference(old_names.begin(), old_names.end(), new_names.begin(), new_names.end(),
                      std::inserter(gone, gone.end()));
  std::set_difference(new_names.begin(), new_names.end(), old_names.begin(), old_names.end(),
                      std::inserter(added, added.end()));
  note_only_in(gone, "before", what, notes);
  note_only_in(added, "after", what, notes);
}

void note_circumstances(const Profile& before, const Profile& after, const Comparison& comparison,
                        std::vector<std::string>& notes) {
  const auto far_apart = [](uint64_t a, uint64_t b) {
    return std::fabs(static_cast<double>(a) - static_cast<double>(b)) >
           0.01 * static_cast<double>(std::max(a, b));
  };
  if (far_apart(before.job.dataset_bytes, after.job.dataset_bytes)) {
    notes.push_back(fmt::format("the datasets differ: {} before, {} after",
                                format_bytes(before.job.dataset_bytes),
                                format_bytes(after.job.dataset_bytes)));
  }
  if (before.time.basis != after.time.basis) {
    notes.push_back(
        fmt::format("waiting is not compared: it is measured from {} before and from {} after",
                    analyze::kWaitBasisNames[static_cast<size_t>(before.time.basis)],
                    analyze::kWaitBasisNames[static_cast<size_t>(after.time.basis)]));
  }
  if (comparison.lengths_differ) {
    notes.emplace_back(
        "one job is more than twice as long as the other: only steps and epochs are judged, "
        "because the start of a job weighs more in the shorter one");
  }
  for (const auto& [side, lost] :
       {std::pair{"before", before.job.lost_events}, std::pair{"after", after.job.lost_events}}) {
    if (lost == 0) continue;
    notes.push_back(fmt::format("the job {} lost {} events: its numbers are too low", side,
                                format_exact(lost)));
  }
  // A single rank is named after the job or by its launcher, so names may differ.
  if (before.job.ranks > 1 && after.job.ranks > 1) {
    note_unmatched(
        before.time.ranks, after.time.ranks, [](const auto& rank) { return rank.name; }, "rank",
        notes);
  }
  note_unmatched(
      before.epochs, after.epochs,
      [](const auto& epoch) { return fmt::format("epoch {}", epoch.epoch); }, "epoch", notes);
}

// The job first, then subjects by their largest effect. The differences of a subject stay together,
// in the order in which they were found.
void order(std::vector<Difference>& differences) {
  using Key = std::pair<By, std::string>;
  std::map<Key, double> effects;
  for (const Difference& one : differences) {
    double& largest = effects[{one.by, one.name}];
    largest = one.by == By::kJob ? std::numeric_limits<double>::infinity()
                                 : std::max(largest, std::fabs(one.effect_ns));
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [&](const Difference& a, const Difference& b) {
                     const double effect_a = effects[{a.by, a.name}];
                     const double effect_b = effects[{b.by, b.name}];
                     if (effect_a != effect_b) return effect_a > effect_b;
                     return std::tie(a.by, a.name) < std::tie(b.by, b.name);
                   });
}

// How long the job takes, and what it waits for. Everything else that became slower is a cause, or
// costs nothing.
bool is_judged(const Difference& one) {
  constexpr std::string_view kJudged[] = {"wall time", "mean step", "mean epoch",
                                          "waiting for data", "checkpoints"};
  return one.by == By::kJob &&
         std::find(std::begin(kJudged), std::end(kJudged), one.measure) != std::end(kJudged);
}

bool is_faster_job(const Comparison& comparison) {
  constexpr std::string_view kWhole[] = {"wall time", "mean step", "mean epoch"};
  return std::any_of(
      comparison.differences.begin(), comparison.differences.end(), [&](const Difference& one) {
        return one.by == By::kJob && one.change == Change::kFaster &&
               std::find(std::begin(kWhole), std::end(kWhole), one.measure) != std::end(kWhole);
      });
}

void judge_job(Comparison& comparison) {
  if (comparison.strict) return;
  const bool is_faster = is_faster_job(comparison);
  bool excused = false;
  for (Difference& one : comparison.differences) {
    excused = excused || (is_faster && one.regression && is_judged(one));
    one.regression = one.regression && !is_faster && is_judged(one);
  }
  if (excused) {
    comparison.notes.emplace_back(
        "the job became faster, so what it waits for longer is no regression (--strict: it is)");
  }
}

// The time of a unit of work.
double unit_ns(const Profile& profile, Per per) {
  return static_cast<double>(profile.job.wall_ns) / std::max(Side(profile, per).units, 1e-9);
}

bool has_regression(const Comparison& comparison, const Difference& like) {
  return std::any_of(comparison.differences.begin(), comparison.differences.end(),
                     [&](const Difference& one) {
                       return one.regression && one.by == like.by && one.name == like.name &&
                              one.measure == like.measure;
                     });
}

}  // namespace

double steps_of_rank(const Profile& profile) {
  return static_cast<double>(profile.steps.duration_ns.count) / std::max(1u, profile.job.ranks);
}

Side::Side(const Profile& of, Per per) : profile(of), ranks(std::max(1u, of.job.ranks)) {
  units = units_of(of, per);
  // Each rank has its own steps; all ranks share an epoch, the data and the job.
  work_units = per == Per::kStep ? units * ranks : units;
}

Comparison compare(const Profile& before, const Profile& after, const CompareOptions& options) {
  Comparison comparison;
  comparison.threshold = options.threshold;
  comparison.strict = options.strict;
  comparison.per = choose_unit(before, after, options, comparison.notes);
  const Side side_before(before, comparison.per);
  const Side side_after(after, comparison.per);
  comparison.before = describe(side_before);
  comparison.after = describe(side_after);
  comparison.lengths_differ = std::max(side_before.units, side_after.units) >
                              kLengthRatioMax * std::min(side_before.units, side_after.units);

  Judge judge(side_before, side_after, options, comparison.differences);
  const bool judged = !comparison.lengths_differ;
  compare_job(judge);
  compare_layers(judge, judged);
  compare_functions(judge, judged);
  compare_kinds(judge, judged);
  compare_ranks(judge, judged);
  compare_epochs(judge);
  order(comparison.differences);
  judge_job(comparison);
  note_circumstances(before, after, comparison, comparison.notes);
  return comparison;
}

Comparison compare_with_baselines(const std::vector<Profile>& baselines, const Profile& after,
                                  const CompareOptions& options) {
  const Per per = compare(baselines.front(), after, options).per;
  std::vector<const Profile*> sorted;
  for (const Profile& baseline : baselines) sorted.push_back(&baseline);
  std::stable_sort(sorted.begin(), sorted.end(), [per](const Profile* a, const Profile* b) {
    return unit_ns(*a, per) < unit_ns(*b, per);
  });
  const Profile* const middle = sorted[(sorted.size() - 1) / 2];
  Comparison comparison = compare(*middle, after, options);
  comparison.baselines = baselines.size();
  if (baselines.size() == 1) return comparison;
  for (const Profile* baseline : sorted) {
    if (baseline == middle) continue;
    const Comparison other = compare(*baseline, after, options);
    for (Difference& one : comparison.differences) {
      one.regression = one.regression && has_regression(other, one);
    }
  }
  const double least = unit_ns(*sorted.front(), per);
  const double most = unit_ns(*sorted.back(), per);
  comparison.notes.push_back(fmt::format(
      "{} baselines, whose wall time varies by {}: shown is the difference from the middle one, and "
      "a regression is one against each of them",
      baselines.size(), format_percent(least > 0 ? most / least - 1 : 0)));
  return comparison;
}

std::optional<double> Difference::relative() const {
  if (before == 0) return std::nullopt;
  return after / before - 1;
}

size_t Comparison::regression_count() const {
  return static_cast<size_t>(std::count_if(differences.begin(), differences.end(),
                                           [](const Difference& one) { return one.regression; }));
}

}  // namespace millrace::report
