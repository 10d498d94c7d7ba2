#include "advise/judging.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/units.h"

namespace millrace::advise {
namespace {

using analyze::FileKind;
using analyze::Profile;
using analyze::Role;

constexpr double kProblemShare = 0.1;

bool contains(const analyze::GroupStats& group, FileKind kind) {
  return group.name == analyze::kFileKindNames[static_cast<size_t>(kind)];
}

uint64_t region_time(const Profile& profile, std::initializer_list<Role> roles) {
  uint64_t time_ns = 0;
  for (const analyze::FunctionStats& function : profile.functions) {
    if (function.kind != wire::CallKind::kRegion) continue;
    if (std::find(roles.begin(), roles.end(), function.role) == roles.end()) continue;
    time_ns += function.time_ns;
  }
  return time_ns;
}

// The larger of the decoding regions and of fetching without its I/O, because libraries decode
// while they fetch. Only the regions if much of the I/O is not recorded (mapped files, io_uring).
uint64_t decode_time(const Profile& profile, uint64_t calls_ns) {
  const uint64_t named = region_time(profile, {Role::kDecode, Role::kTransform, Role::kCollate});
  const analyze::IoTotals data = data_totals(profile);
  if (4 * data.maps > data.reads || profile.job.uring_io) return named;
  const uint64_t fetching =
      std::max(region_time(profile, {Role::kFetch}), region_time(profile, {Role::kRead}));
  return std::max(named, fetching - std::min(fetching, calls_ns));
}

}  // namespace

uint64_t time_of(const analyze::IoTotals& io) { return io.read_ns + io.write_ns + io.metadata_ns; }

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

uint64_t time_at(uint64_t bytes, uint64_t bytes_per_second) {
  // In floating point: a product of bytes and nanoseconds overflows at 18 GB.
  return static_cast<uint64_t>(ratio(bytes, bytes_per_second) * 1e9);
}

uint64_t scaled(uint64_t whole, double share) {
  return static_cast<uint64_t>(static_cast<double>(whole) * std::clamp(share, 0.0, 1.0));
}

std::string duration(uint64_t time_ns) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(time_ns)));
}

uint64_t Waiting::due_to(uint64_t time_ns) const { return scaled(io_ns, ratio(time_ns, calls_ns)); }

uint64_t Waiting::exposed_due_to(uint64_t time_ns) const {
  return scaled(exposed_ns, ratio(time_ns, all_calls_ns));
}

double Waiting::share(uint64_t time_ns) const { return ratio(time_ns, wall_ns); }

bool Waiting::matters(uint64_t time_ns) const {
  const double time_share = ratio(time_ns, rank_ns);
  if (time_ns < kSecond || time_share < kTimeShareMin) return false;
  const uint64_t cost_ns = std::max(due_to(time_ns), exposed_due_to(time_ns));
  return time_share >= kMuchTimeShare || share(cost_ns) >= kCostShareMin;
}

Waiting waiting_of(const Profile& profile) {
  Waiting waiting;
  const analyze::TimeSplit& mean = profile.time.mean;
  waiting.wall_ns = profile.job.wall_ns;
  waiting.rank_ns = profile.job.wall_ns * std::max<uint64_t>(profile.job.ranks, 1);
  for (const analyze::GroupStats& group : profile.kinds) {
    waiting.all_calls_ns += time_of(group.io);
  }
  waiting.calls_ns = time_of(data_totals(profile));
  waiting.decode_ns = decode_time(profile, waiting.calls_ns);
  waiting.exposed_ns = std::min(mean.io_exposed_ns, waiting.wall_ns);
  if (profile.time.basis == analyze::WaitBasis::kRegions) {
    waiting.data_ns = std::min(mean.wait_ns, waiting.wall_ns);
    // Waiting for a batch includes waiting for its decoding.
    const double io_share = ratio(waiting.calls_ns, waiting.calls_ns + waiting.decode_ns);
    waiting.io_ns = std::min(scaled(waiting.data_ns, io_share), waiting.exposed_ns);
    return waiting;
  }
  // Without regions, waiting is known only as I/O that does not overlap with compute.
  const uint64_t known = profile.time.basis == analyze::WaitBasis::kNone
                             ? waiting.exposed_ns
                             : std::min(mean.wait_ns, waiting.exposed_ns);
  waiting.io_ns = scaled(known, ratio(waiting.calls_ns, waiting.all_calls_ns));
  waiting.data_ns = waiting.io_ns;
  return waiting;
}

analyze::IoTotals data_totals(const Profile& profile) {
  for (const analyze::GroupStats& group : profile.kinds) {
    if (contains(group, FileKind::kData)) return group.io;
  }
  return {};
}

std::string data_directory(const Profile& profile) {
  const analyze::FileStats* most = nullptr;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != FileKind::kData) continue;
    if (most == nullptr || file.io.bytes_read > most->io.bytes_read) most = &file;
  }
  const size_t slash = most == nullptr ? std::string::npos : most->path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "DATA";
  return most->path.substr(0, slash);
}

uint64_t epochs_of(const Profile& profile) { return std::max<uint64_t>(profile.job.epochs, 1); }

bool uses_hdf5(const Profile& profile) {
  const bool called = std::any_of(
      profile.layers.begin(), profile.layers.end(),
      [](const auto& layer) { return layer.layer == analyze::Layer::kFormat && layer.count > 0; });
  if (called) return true;
  return std::any_of(profile.extensions.begin(), profile.extensions.end(), [](const auto& group) {
    return group.name == ".h5" || group.name == ".hdf5" || group.name == ".nc";
  });
}

bool is_shared_storage(const Profile& profile, const Machine& machine) {
  switch (machine.data_storage) {
    case Storage::kParallel:
    case Storage::kNetwork:
      return true;
    case Storage::kUnknown:
      return profile.job.hosts.size() > 1 && profile.data.files_shared > 0;
    default:
      return false;
  }
}

Changes& Changes::add(std::string_view framework, std::string text) {
  list_.push_back({.framework = std::string(framework), .text = std::move(text)});
  return *this;
}

Changes& Changes::pytorch(std::string text) {
  if (profile_.job.framework == "tensorflow") return *this;
  return add("pytorch", std::move(text));
}

Changes& Changes::tf_data(std::string text) {
  if (profile_.job.framework == "pytorch") return *this;
  return add("tf.data", std::move(text));
}

Changes& Changes::hdf5(std::string text) {
  return uses_hdf5(profile_) ? add("hdf5", std::move(text)) : *this;
}

Changes& Changes::lustre(std::string text) {
  const bool may_be = machine_.data_file_system.empty()
                          ? machine_.data_storage == Storage::kParallel
                          : machine_.data_file_system == "lustre";
  return may_be ? add("lustre", std::move(text)) : *this;
}

Changes& Changes::store(std::string text) { return add("store", std::move(text)); }
Changes& Changes::loader(std::string text) { return add("loader", std::move(text)); }
Changes& Changes::any(std::string text) { return add("any", std::move(text)); }

std::string stripe_command(const Profile& profile, uint64_t transfer_bytes, uint64_t file_bytes) {
  const uint64_t stripe = std::bit_ceil(std::clamp<uint64_t>(transfer_bytes, kMiB, 16 * kMiB));
  const uint64_t count = std::clamp<uint64_t>(file_bytes / kGiB, 1, 16);
  return fmt::format("lfs setstripe -S {}M -c {} {}", stripe / kMiB, count,
                     data_directory(profile));
}

Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how) {
  Gain gain;
  gain.saved_ns = std::min(saved_ns, waiting.wall_ns);
  gain.share = waiting.share(gain.saved_ns);
  gain.how = std::move(how);
  return gain;
}

Severity severity_of(const Gain& gain, Severity otherwise) {
  return gain.share > kProblemShare ? Severity::kProblem : otherwise;
}

}  // namespace millrace::advise
