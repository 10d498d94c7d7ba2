#include "advise/loop_loading.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advise/judging.h"

namespace millrace::advise {
namespace {

using analyze::Loading;
using analyze::Profile;
using analyze::Stall;

std::set<std::string_view> data_directories(const Profile& profile) {
  std::set<std::string_view> directories;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != analyze::FileKind::kData || file.io.bytes_read == 0) continue;
    const std::string_view path = file.path;
    const size_t slash = path.rfind('/');
    if (slash != std::string_view::npos) directories.insert(path.substr(0, slash));
  }
  return directories;
}

// Calls of the gaps in which the loop reads: of reading, and of finding files on the way.
bool belongs_to_reading(const Profile& profile, const Stall& stall) {
  if (stall.phase != kInTraining || stall.name.empty() || is_writing(profile, stall.name))
    return false;
  // Where the loop writes, it also opens files to write.
  const bool reads = kind_of(profile, stall.name) == wire::CallKind::kRead;
  return stall.directory != "/dev/shm" && (reads || !has_writes_in(profile, stall.directory));
}

// Reads in the epochs by threads that do not load, as time of the threads that wait for them.
struct HelperReads {
  uint64_t count = 0;
  uint64_t wait_ns = 0;
};

HelperReads helper_reads_of(const Profile& profile) {
  constexpr uint64_t kWaitingReadNs = 50'000;  // shorter ones come from the page cache
  const Loading& loading = profile.loading;
  if (loading.work_ns == 0) return {};
  const analyze::IoTotals data = data_totals(profile);
  uint64_t reads = 0;
  uint64_t read_ns = 0;
  for (const analyze::EpochStats& epoch : profile.epochs) {
    reads += epoch.io.reads;
    read_ns += epoch.io.read_ns;
  }
  reads = std::min(reads, data.reads);
  read_ns = std::min(read_ns, data.read_ns);
  const auto leave_out = [&](uint64_t count, uint64_t time_ns) {
    reads -= std::min(reads, count);
    read_ns -= std::min(read_ns, time_ns);
  };
  leave_out(loading.reads, loading.read_ns);
  // Those of the training loop itself.
  for (const Stall& stall : profile.stalls) {
    const bool reads_files = kind_of(profile, stall.name) == wire::CallKind::kRead;
    if (stall.phase == kInTraining && reads_files) leave_out(stall.count, stall.time_ns);
  }
  if (reads < kCallsMin || read_ns / reads < kWaitingReadNs) return {};
  double in_flight = 1;
  for (const analyze::RankLoad& rank : profile.ranks) {
    in_flight = std::max(in_flight, rank.calls_in_flight);
  }
  const auto wait_ns = static_cast<double>(read_ns) / in_flight;
  // A small part may belong to something else.
  if (4 * wait_ns < static_cast<double>(loading.other_ns)) return {};
  return {.count = reads, .wait_ns = std::min(static_cast<uint64_t>(wait_ns), loading.other_ns)};
}

void add(const Profile& profile, const Stall& stall, Loading& loading) {
  loading.work_ns += stall.stall_ns;
  loading.other_ns += minus(stall.stall_ns, stall.time_ns);
  const uint64_t time_ns = std::min(stall.stall_ns, stall.time_ns);
  if (stall.name.starts_with("H5")) {
    loading.library_ns += time_ns;
    loading.library_reads += stall.name == "H5Dread" ? stall.count : 0;
    return;
  }
  const wire::CallKind kind = kind_of(profile, stall.name);
  (kind == wire::CallKind::kRead ? loading.read_ns : loading.metadata_ns) += time_ns;
  if (kind == wire::CallKind::kRead) loading.reads += stall.count;
  if (kind == wire::CallKind::kOpen) loading.opens += stall.count;
  if (kind == wire::CallKind::kMetadata) loading.stats += stall.count;
  if (kind == wire::CallKind::kDirectory) loading.lists += stall.count;
}

// Adds the own time of a call that loading makes. `is_part`: it belongs to a call of the same kind,
// as the read of a fread.
void add_call(const Profile& profile, const analyze::TreeNode& node, bool is_part,
              Loading& loading) {
  const wire::CallKind kind = kind_of(profile, node.name);
  const uint64_t count = is_part ? 0 : node.count;
  if (node.layer == analyze::Layer::kFormat || node.layer == analyze::Layer::kMpiio) {
    loading.library_ns += node.self_ns;
    if (kind != wire::CallKind::kRead) return;
    loading.library_reads += count;
    loading.library_bytes += node.bytes;
    return;
  }
  const bool reads = kind == wire::CallKind::kRead || kind == wire::CallKind::kTransfer;
  (reads ? loading.read_ns : loading.metadata_ns) += node.self_ns;
  if (reads) loading.reads += count;
  if (kind == wire::CallKind::kOpen) loading.opens += count;
  if (kind == wire::CallKind::kMetadata) loading.stats += count;
  if (kind == wire::CallKind::kDirectory) loading.lists += count;
}

// What the thread that trains does in its regions of waiting. All zeros unless these contain most
// of the calls that read the data: otherwise other threads load.
Loading loading_in_waits(const Profile& profile) {
  std::set<std::string_view> waits;
  for (const analyze::FunctionStats& function : profile.functions) {
    if (function.role == analyze::Role::kWait) waits.insert(function.name);
  }
  const std::vector<analyze::TreeNode>& tree = profile.tree;
  std::vector<bool> in_wait(tree.size(), false);
  Loading loading;
  for (size_t i = 1; i < tree.size(); ++i) {
    const analyze::TreeNode& node = tree[i];
    const bool is_region =
        node.layer == analyze::Layer::kApplication || node.layer == analyze::Layer::kLoader;
    const bool is_inner = in_wait[node.parent];
    in_wait[i] = is_inner || (is_region && waits.contains(node.name));
    if (!in_wait[i]) continue;
    if (!is_inner) {
      loading.work_ns += node.total_ns;
      loading.batches += node.count;
    } else if (!is_region) {
      const analyze::TreeNode& parent = tree[node.parent];
      const bool is_part = parent.layer != analyze::Layer::kLoader &&
                           kind_of(profile, parent.name) == kind_of(profile, node.name);
      add_call(profile, node, is_part, loading);
    }
  }
  const analyze::IoTotals data = data_totals(profile);
  if (data.reads == 0 || 2 * loading.reads < data.reads || 2 * loading.opens < data.opens) {
    return {};
  }
  const uint64_t known_ns = loading.read_ns + loading.metadata_ns + loading.library_ns;
  loading.other_ns = minus(loading.work_ns, known_ns);
  loading.in_flight = 1;
  return loading;
}

// A program may mark its batches but not its samples. Most samples are a file, or a read of a
// library.
void count_samples(Loading& loading) {
  if (loading.samples == 0) loading.samples = std::max(loading.opens, loading.library_reads);
}

}  // namespace

Profile with_loop_loading(const Profile& profile) {
  if (profile.loading.work_ns > 0) {
    Profile seen = profile;
    count_samples(seen.loading);
    return seen;
  }
  if (const Loading loading = loading_in_waits(profile); loading.work_ns > 0) {
    Profile seen = profile;
    seen.loading = loading;
    count_samples(seen.loading);
    analyze::TimeSplit& mean = seen.time.mean;
    mean.fetch_ns = std::max(mean.fetch_ns, mean.wait_ns);
    mean.fetch_exposed_ns = std::max(mean.fetch_exposed_ns, mean.wait_ns);
    return seen;
  }
  const std::set<std::string_view> directories = data_directories(profile);
  Loading loading;
  uint64_t reading_ns = 0;  // in gaps with reads of data
  std::vector<Stall> rest;
  for (const Stall& stall : profile.stalls) {
    if (!belongs_to_reading(profile, stall)) {
      rest.push_back(stall);
      continue;
    }
    add(profile, stall, loading);
    const bool reads = stall.name.starts_with("H5") ||
                       (is_reading(profile, stall.name) && directories.count(stall.directory) > 0);
    if (reads) reading_ns += stall.stall_ns;
  }
  // Otherwise the loop does something else.
  if (4 * reading_ns < loading.work_ns || reading_ns == 0) return profile;
  // Calls of HDF5 contain the reads that they make.
  const uint64_t below_ns = std::min(loading.library_ns, data_totals(profile).read_ns);
  loading.library_ns -= below_ns;
  loading.read_ns += below_ns;
  for (const analyze::LayerStats& layer : profile.layers) {
    if (layer.layer == analyze::Layer::kFormat) loading.library_bytes = layer.bytes_read;
  }
  Profile seen = profile;
  count_samples(loading);
  loading.in_flight = 1;
  seen.loading = loading;
  seen.stalls = std::move(rest);
  seen.time.basis = analyze::WaitBasis::kRegions;
  analyze::TimeSplit& mean = seen.time.mean;
  mean.wait_ns = loading.work_ns / std::max<uint64_t>(profile.job.ranks, 1);
  const uint64_t training_ns = std::max<uint64_t>(mean.training_ns, 1);
  mean.wait_share = std::min(ratio(mean.wait_ns, training_ns), 1.0);
  mean.fetch_ns = mean.wait_ns;
  mean.fetch_exposed_ns = mean.wait_ns;
  return seen;
}

Profile with_helper_reads(const Profile& profile) {
  const HelperReads reads = helper_reads_of(profile);
  if (reads.count == 0) return profile;
  Profile seen = profile;
  seen.loading.reads += reads.count;
  seen.loading.read_ns += reads.wait_ns;
  seen.loading.other_ns -= reads.wait_ns;
  return seen;
}

}  // namespace millrace::advise
