#include "report/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/units.h"
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
  note_circumstances(before, after, comparison, comparison.notes);
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
