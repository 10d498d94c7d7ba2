// The checkpoints metric: what was written during each checkpoint, by how many ranks, and how long
// no rank computed. The context knows when checkpoints took place.
#include <algorithm>
#include <map>
#include <set>

#include "analyze/epochs/checkpoint_end.h"
#include "analyze/scan.h"
#include "analyze/time/time_runs.h"
#include "base/concurrency/mutex.h"

namespace millrace::analyze {
namespace {

// The regions of one or several ranks that save the same state.
struct Cluster {
  int64_t epoch = -1;
  int64_t step = -1;
  Interval time;
  std::set<uint32_t> groups;

  // Whether the region does not carry a different epoch or step.
  bool agrees(const StepSpan& span) const {
    const auto same = [](int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; };
    return same(epoch, span.epoch) && same(step, span.step);
  }
  bool overlaps(const StepSpan& span) const {
    return span.begin_ns <= time.end_ns && time.begin_ns <= span.end_ns;
  }
};

// A region belongs to the cluster that it overlaps or that has the same epoch and step, unless its
// rank saved long before. If regions carry only an epoch, the first one of each rank belong
// together.
bool belongs(const CheckpointRegion& region, const Cluster& cluster) {
  if (!cluster.agrees(region.span)) return false;
  if (cluster.overlaps(region.span)) return true;
  if (region.span.step >= 0) {
    // A rank may save in several regions one after the other. After the last step, its number
    // stays.
    const bool is_other_rank = !cluster.groups.contains(static_cast<uint32_t>(region.group));
    return cluster.step == region.span.step &&
           (is_other_rank || follows_checkpoint(region.span.begin_ns, cluster.time));
  }
  if (region.span.epoch < 0 || cluster.epoch != region.span.epoch) return false;
  return !cluster.groups.contains(static_cast<uint32_t>(region.group));
}

// Regions are sorted by begin, so the cluster of a region is among the last ones.
constexpr size_t kLookBack = 64;

std::vector<Cluster> make_clusters(const std::vector<CheckpointRegion>& regions,
                                   std::vector<uint32_t>& cluster_of) {
  std::vector<Cluster> clusters;
  for (const CheckpointRegion& region : regions) {
    const size_t oldest = clusters.size() - std::min(clusters.size(), kLookBack);
    const auto first = clusters.begin() + static_cast<ptrdiff_t>(oldest);
    auto found = std::find_if(first, clusters.end(),
                              [&](const Cluster& cluster) { return belongs(region, cluster); });
    if (found == clusters.end()) {
      clusters.push_back({.time = {region.span.begin_ns, region.span.begin_ns}, .groups = {}});
      found = clusters.end() - 1;
    }
    found->epoch = std::max(found->epoch, region.span.epoch);
    found->step = std::max(found->step, region.span.step);
    found->time.end_ns = std::max(found->time.end_ns, region.span.end_ns);
    found->groups.insert(static_cast<uint32_t>(region.group));
    cluster_of.push_back(static_cast<uint32_t>(found - clusters.begin()));
  }
  return clusters;
}

// What was written during one checkpoint.
struct Written {
  uint64_t bytes = 0;
  uint64_t writes = 0;
  std::set<uint32_t> groups;
  std::map<uint32_t, uint64_t> bytes_of;  // by file

  void merge(const Written& other) {
    bytes += other.bytes;
    writes += other.writes;
    groups.insert(other.groups.begin(), other.groups.end());
    for (const auto& [file, size] : other.bytes_of) bytes_of[file] += size;
  }
};

class CheckpointsMetric final : public Metric {
 public:
  explicit CheckpointsMetric(const Context& context) : context_(context) {
    std::vector<uint32_t> cluster_of;
    clusters_ = make_clusters(context.checkpoints, cluster_of);
    for (const Cluster& cluster : clusters_) {
      const uint64_t before_ns = latest_ns_.empty() ? 0 : latest_ns_.back();
      latest_ns_.push_back(std::max(before_ns, cluster.time.end_ns));
    }
    regions_of_.resize(context.groups.size());
    for (size_t i = 0; i < cluster_of.size(); ++i) {
      const CheckpointRegion& region = context.checkpoints[i];
      auto& regions = regions_of_[static_cast<size_t>(region.group)];
      uint64_t latest_ns = region.span.end_ns;
      if (!regions.empty()) latest_ns = std::max(latest_ns, regions.back().latest_ns);
      regions.push_back({{region.span.begin_ns, region.span.end_ns}, latest_ns, cluster_of[i]});
    }
  }

  void observe(const Block& block) override;
  void save(std::vector<std::byte>& out) const override;
  Status merge(ByteReader& saved) override;
  void finish(const Context& context, Profile& profile) override;

 private:
  struct Region {
    Interval time;
    uint64_t latest_ns = 0;  // the latest end of this region and those before it
    uint32_t cluster = 0;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  // The checkpoint that a group was in at a given time, or kNone.
  uint32_t cluster_at(uint32_t group, uint64_t time_ns) const;
  void add_compute(const Interval& span, std::map<uint32_t, std::vector<Interval>>& compute) const;

  const Context& context_;
  std::vector<Cluster> clusters_;    // sorted by begin
  std::vector<uint64_t> latest_ns_;  // for each cluster, the latest end of it and those before it
  std::vector<std::vector<Region>> regions_of_;  // by group, sorted by begin
  mutable Mutex mutex_;
  std::map<uint32_t, Written> written_ GUARDED_BY(mutex_);  // by cluster
  TimeRuns compute_ GUARDED_BY(mutex_);  // within checkpoints; the tag is the cluster
};

uint32_t CheckpointsMetric::cluster_at(uint32_t group, uint64_t time_ns) const {
  const std::vector<Region>& regions = regions_of_[group];
  auto at = std::upper_bound(
      regions.begin(), regions.end(), time_ns,
      [](uint64_t time, const Region& region) { return time < region.time.begin_ns; });
  while (at != regions.begin()) {
    --at;
    if (at->latest_ns < time_ns) return kNone;
    if (at->time.end_ns >= time_ns) return at->cluster;
  }
  return kNone;
}

void CheckpointsMetric::add_compute(const Interval& span,
                                    std::map<uint32_t, std::vector<Interval>>& compute) const {
  const auto first = std::upper_bound(latest_ns_.begin(), latest_ns_.end(), span.begin_ns);
  for (auto i = static_cast<size_t>(first - latest_ns_.begin()); i < clusters_.size(); ++i) {
    const Interval& time = clusters_[i].time;
    if (time.begin_ns >= span.end_ns) return;
    const Interval within{std::max(time.begin_ns, span.begin_ns),
                          std::min(time.end_ns, span.end_ns)};
    if (within.begin_ns < within.end_ns) compute[static_cast<uint32_t>(i)].push_back(within);
  }
}

void CheckpointsMetric::observe(const Block& block) {
  if (clusters_.empty()) return;
  const trace::EventColumns& columns = block.columns;
  const auto group = static_cast<uint32_t>(block.group);
  std::map<uint32_t, Written> written;
  std::map<uint32_t, std::vector<Interval>> compute;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const CallTraits& traits = traits_of(columns.call[i]);
    const uint64_t begin_ns = columns.begin_ns[i];
    if (traits.region) {
      const Role role = context_.role(columns.file[i]);
      if (!context_.is_compute(block.group, role, begin_ns)) continue;
      add_compute({begin_ns, begin_ns + columns.duration_ns[i]}, compute);
      continue;
    }
    const bool transfers = traits.kind == wire::CallKind::kTransfer;
    if (traits.kind != wire::CallKind::kWrite && !transfers) continue;
    if (!counts_bytes(context_, traits.layer)) continue;
    const uint32_t cluster = cluster_at(group, begin_ns);
    if (cluster == kNone) continue;
    Written& of = written[cluster];
    ++of.writes;
    if (columns.error[i] != 0 || columns.result[i] <= 0) continue;
    const auto bytes = static_cast<uint64_t>(columns.result[i]);
    const trace::NameIndex file = transfers ? columns.other_file[i] : columns.file[i];
    of.bytes += bytes;
    of.bytes_of[static_cast<uint32_t>(file)] += bytes;
    of.groups.insert(group);
  }
  TimeRuns runs;
  for (auto& [cluster, spans] : compute) runs.add(cluster, spans);
  const MutexLock lock(mutex_);
  compute_.append(std::move(runs));
  for (const auto& [cluster, of] : written) written_[cluster].merge(of);
}

void CheckpointsMetric::save(std::vector<std::byte>& out) const {
  const MutexLock lock(mutex_);
  compute_.save(out);
  append_varint(out, written_.size());
  for (const auto& [cluster, of] : written_) {
    append_varint(out, cluster);
    append_varint(out, of.bytes);
    append_varint(out, of.writes);
    append_varint(out, of.groups.size());
    for (const uint32_t group : of.groups) append_varint(out, group);
    append_varint(out, of.bytes_of.size());
    for (const auto& [file, bytes] : of.bytes_of) {
      append_varint(out, file);
      append_varint(out, bytes);
    }
  }
}

Status CheckpointsMetric::merge(ByteReader& saved) {
  const MutexLock lock(mutex_);
  const auto read_below = [&saved](uint64_t limit) -> Result<uint32_t> {
    ASSIGN_OR_RETURN(const uint64_t value, saved.read_varint());
    if (value < limit) return static_cast<uint32_t>(value);
    return fail(Errc::kCorrupt,
                "saved checkpoints have the index {}, but the limit in this trace is {}", value,
                limit);
  };
  TimeRuns compute;
  RETURN_IF_ERROR(compute.merge(saved, [this](uint64_t tag) { return tag < clusters_.size(); }));
  std::map<uint32_t, Written> written;
  ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t cluster, read_below(clusters_.size()));
    Written& of = written[cluster];
    ASSIGN_OR_RETURN(of.bytes, saved.read_varint());
    ASSIGN_OR_RETURN(of.writes, saved.read_varint());
    ASSIGN_OR_RETURN(const uint64_t group_count, saved.read_varint());
    for (uint64_t k = 0; k < group_count; ++k) {
      ASSIGN_OR_RETURN(const uint32_t group, read_below(context_.groups.size()));
      of.groups.insert(group);
    }
    ASSIGN_OR_RETURN(const uint64_t file_count, saved.read_varint());
    for (uint64_t k = 0; k < file_count; ++k) {
      ASSIGN_OR_RETURN(const uint32_t file, read_below(context_.trace.names().size()));
      ASSIGN_OR_RETURN(of.bytes_of[file], saved.read_varint());
    }
  }
  compute_.append(std::move(compute));
  for (const auto& [cluster, of] : written) written_[cluster].merge(of);
  return {};
}

void CheckpointsMetric::finish(const Context& context, Profile& profile) {
  const MutexLock lock(mutex_);
  std::vector<std::vector<const IntervalRun*>> compute_of(clusters_.size());
  for (const TaggedRun& tagged : compute_.runs()) compute_of[tagged.tag].push_back(&tagged.run);
  for (uint32_t i = 0; i < clusters_.size(); ++i) {
    const Cluster& cluster = clusters_[i];
    const Written& of = written_[i];
    Checkpoint& checkpoint = profile.checkpoints.emplace_back();
    checkpoint.epoch = cluster.epoch;
    if (cluster.epoch < 0 && !cluster.groups.empty()) {
      checkpoint.epoch = context.epochs.epoch_at(*cluster.groups.begin(), cluster.time.begin_ns);
    }
    checkpoint.begin_ns = cluster.time.begin_ns - std::min(cluster.time.begin_ns, context.begin_ns);
    checkpoint.end_ns = cluster.time.end_ns - std::min(cluster.time.end_ns, context.begin_ns);
    checkpoint.ranks_writing = static_cast<uint32_t>(of.groups.size());
    checkpoint.bytes = of.bytes;
    checkpoint.writes = of.writes;
    const uint64_t length_ns = cluster.time.end_ns - cluster.time.begin_ns;
    const std::span<const IntervalRun* const> compute(compute_of[i]);
    checkpoint.stalled_ns = length_ns - std::min(length_ns, measure_ns(IntervalUnion(compute)));
    uint64_t most = 0;
    for (const auto& [file, bytes] : of.bytes_of) {
      if (bytes <= most) continue;
      most = bytes;
      checkpoint.file = context.trace.name(trace::NameIndex{file});
    }
  }
}

}  // namespace

std::unique_ptr<Metric> make_checkpoints_metric(const Context& context, const Limits&) {
  return std::make_unique<CheckpointsMetric>(context);
}

}  // namespace millrace::analyze
