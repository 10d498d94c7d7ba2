#include "report/scaling.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace millrace::report {
namespace {

using analyze::Profile;

// Datasets and shares that differ by less count as equal, because file sizes vary.
constexpr double kSameWork = 0.1;

double number(uint64_t value) { return static_cast<double>(value); }

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : number(part) / number(whole);
}

ScalingRow describe(const Profile& profile) {
  const auto& job = profile.job;
  const auto& mean = profile.time.mean;
  ScalingRow row;
  row.name = job.traces.empty() ? "" : job.traces.front();
  row.hosts = job.hosts.size();
  row.ranks = std::max(1u, job.ranks);
  row.wall_ns = number(job.wall_ns);
  row.epoch_ns = mean_epoch_ns(profile);
  row.step_ns = profile.steps.duration_ns.mean;
  if (job.dataset_bytes_read > 0) {
    row.gigabyte_ns = row.wall_ns / (number(job.dataset_bytes_read) / 1e9);
  }
  row.io_share = share_of(mean.io_ns, mean.wall_ns);
  row.io_exposed_share = share_of(mean.io_exposed_ns, mean.wall_ns);
  row.wait_share = mean.wait_share;
  if (job.wall_ns > 0) row.read_bandwidth = number(job.bytes_read) / (row.wall_ns / 1e9);
  return row;
}

// A job and its work per unit; 0: unknown.
struct Sized {
  ScalingRow row;
  double dataset_bytes = 0;
  double work = 0;
};

bool all_have(const std::vector<Sized>& jobs, double ScalingRow::* member) {
  return std::all_of(jobs.begin(), jobs.end(),
                     [&](const Sized& job) { return job.row.*member > 0; });
}

Per choose_unit(const std::vector<Sized>& jobs) {
  if (all_have(jobs, &ScalingRow::epoch_ns)) return Per::kEpoch;
  if (all_have(jobs, &ScalingRow::step_ns)) return Per::kStep;
  return Per::kJob;
}

void measure(std::vector<Sized>& jobs, Per per) {
  for (Sized& job : jobs) {
    switch (per) {
      case Per::kEpoch:
        job.row.unit_ns = job.row.epoch_ns;
        job.work = job.dataset_bytes;
        break;
      case Per::kStep:
        job.row.unit_ns = job.row.step_ns;
        job.work = job.row.ranks;  // one batch per rank
        break;
      default:
        job.row.unit_ns = job.row.wall_ns;
        job.work = job.dataset_bytes;
    }
  }
}

// Whether all jobs have the same work / size.
template <typename Size>
bool same_work(const std::vector<Sized>& jobs, Size size) {
  const double first = jobs.front().work / size(jobs.front());
  return first > 0 && std::all_of(jobs.begin(), jobs.end(), [&](const Sized& job) {
           return std::fabs(job.work / size(job) - first) <= kSameWork * first;
         });
}

}  // namespace

double mean_epoch_ns(const analyze::Profile& profile) {
  double sum_ns = 0;
  for (const auto& epoch : profile.epochs) sum_ns += number(epoch.end_ns) - number(epoch.begin_ns);
  return profile.epochs.empty() ? 0 : sum_ns / number(profile.epochs.size());
}

Scaling scaling_of(std::span<const Profile> profiles) {
  Scaling scaling;
  std::vector<Sized> jobs;
  for (const Profile& profile : profiles) {
    jobs.push_back({.row = describe(profile), .dataset_bytes = number(profile.job.dataset_bytes)});
  }
  if (jobs.empty()) return scaling;
  std::stable_sort(jobs.begin(), jobs.end(), [](const Sized& a, const Sized& b) {
    return std::tie(a.row.ranks, a.row.hosts) < std::tie(b.row.ranks, b.row.hosts);
  });
  scaling.per = choose_unit(jobs);
  measure(jobs, scaling.per);

  const bool same_ranks = jobs.front().row.ranks == jobs.back().row.ranks;
  const bool same_hosts = jobs.front().row.hosts == jobs.back().row.hosts;
  scaling.against_hosts = same_ranks && !same_hosts;
  const auto size = [&](const Sized& job) {
    return std::max(1.0, scaling.against_hosts ? number(job.row.hosts) : number(job.row.ranks));
  };
  if (!same_ranks || !same_hosts) {
    const bool strong = same_work(jobs, [](const Sized&) { return 1.0; });
    scaling.kind = strong                  ? ScalingKind::kStrong
                   : same_work(jobs, size) ? ScalingKind::kWeak
                                           : ScalingKind::kMixed;
  }
  // Use exact ratios for strong and weak scaling: small differences of file sizes must not count as
  // speed.
  const auto work = [&](const Sized& job) {
    if (scaling.kind == ScalingKind::kStrong || scaling.kind == ScalingKind::kNone) return 1.0;
    return scaling.kind == ScalingKind::kWeak ? size(job) : job.work;
  };
  const Sized first = jobs.front();
  for (Sized& job : jobs) {
    if (first.row.unit_ns > 0 && job.row.unit_ns > 0 && work(first) > 0) {
      job.row.speed_up = (work(job) / job.row.unit_ns) / (work(first) / first.row.unit_ns);
      job.row.efficiency = job.row.speed_up / (size(job) / size(first));
    }
    scaling.rows.push_back(std::move(job.row));
  }
  return scaling;
}

}  // namespace millrace::report
