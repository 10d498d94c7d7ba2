#include "advise/judging.h"

#include <algorithm>

#include "analyze/files/file_kinds.h"

namespace millrace::advise {

using analyze::FileKind;
using analyze::Profile;

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

const analyze::IoTotals* totals_of(const Profile& profile, FileKind kind) {
  for (const analyze::GroupStats& group : profile.kinds) {
    if (group.name == analyze::name_of(kind)) return &group.io;
  }
  return nullptr;
}

analyze::IoTotals data_totals(const Profile& profile) {
  const analyze::IoTotals* data = totals_of(profile, FileKind::kData);
  return data == nullptr ? analyze::IoTotals() : *data;
}

uint64_t time_of(const analyze::IoTotals& io) { return io.read_ns + io.write_ns + io.metadata_ns; }

bool writes_checkpoint(const Profile& profile, const analyze::Stall& stall) {
  if (profile.checkpoints.empty()) return false;
  const wire::CallKind kind = kind_of(profile, stall.name);
  if (stall.phase != kInTraining || is_metadata(profile, stall.name) ||
      kind == wire::CallKind::kRead || kind == wire::CallKind::kMap) {
    return false;
  }
  uint64_t writes = 0;
  uint64_t others = 0;
  for (const analyze::FileStats& file : profile.files) {
    if (analyze::directory_of(file.path) != stall.directory) continue;
    (file.kind == FileKind::kCheckpoint ? writes : others) += file.io.writes;
  }
  return writes > others;
}

uint64_t unmarked_checkpoints_ns(const Profile& profile) {
  uint64_t time_ns = 0;
  for (const analyze::Stall& stall : profile.stalls) {
    if (writes_checkpoint(profile, stall)) time_ns += stall.stall_ns;
  }
  return time_ns / std::max<uint64_t>(profile.job.ranks, 1);
}

wire::CallKind kind_of(const Profile& profile, std::string_view name) {
  for (const analyze::FunctionStats& function : profile.functions) {
    // A region may have the name of a call, such as "read".
    if (function.name == name && function.kind != wire::CallKind::kRegion) return function.kind;
  }
  return wire::CallKind::kOther;
}

bool changes_names(std::string_view name) {
  for (const std::string_view start : {"rename", "unlink", "remove", "link", "symlink", "mkdir",
                                       "rmdir", "truncate", "ftruncate", "chmod", "fchmod"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

bool is_metadata(const Profile& profile, std::string_view name) {
  if (changes_names(name)) return false;
  const wire::CallKind kind = kind_of(profile, name);
  return kind == wire::CallKind::kMetadata || kind == wire::CallKind::kDirectory;
}

bool is_reading(const Profile& profile, std::string_view name) {
  const wire::CallKind kind = kind_of(profile, name);
  return kind == wire::CallKind::kRead || kind == wire::CallKind::kOpen ||
         kind == wire::CallKind::kClose || kind == wire::CallKind::kSeek ||
         kind == wire::CallKind::kMap;
}

bool is_writing(const Profile& profile, std::string_view name) {
  const wire::CallKind kind = kind_of(profile, name);
  return kind == wire::CallKind::kWrite || kind == wire::CallKind::kSync;
}

bool has_writes_in(const Profile& profile, std::string_view directory) {
  return std::any_of(profile.stalls.begin(), profile.stalls.end(), [&](const auto& stall) {
    return stall.phase == kInTraining && stall.directory == directory &&
           is_writing(profile, stall.name);
  });
}

bool uses_hdf5(const Profile& profile) {
  const bool called = std::any_of(
      profile.layers.begin(), profile.layers.end(),
      [](const auto& layer) { return layer.layer == analyze::Layer::kFormat && layer.count > 0; });
  if (called) return true;
  return std::any_of(profile.extensions.begin(), profile.extensions.end(),
                     [](const auto& group) { return is_hdf5_name(group.name); });
}

bool is_hdf5_name(std::string_view path) {
  return path.ends_with(".h5") || path.ends_with(".hdf5") || path.ends_with(".nc");
}

}  // namespace millrace::advise
