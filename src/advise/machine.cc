#include "advise/machine.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "base/io/mounts.h"
#include "base/system/cpus.h"
#include "base/system/memory.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct FileSystem {
  std::string_view name;
  Storage storage;
};

constexpr FileSystem kFileSystems[] = {
    {"lustre", Storage::kParallel},      {"gpfs", Storage::kParallel},
    {"beegfs", Storage::kParallel},      {"ceph", Storage::kParallel},
    {"fuse.ceph", Storage::kParallel},   {"fuse.glusterfs", Storage::kParallel},
    {"glusterfs", Storage::kParallel},   {"wekafs", Storage::kParallel},
    {"panfs", Storage::kParallel},       {"pvfs2", Storage::kParallel},
    {"fuse.daos", Storage::kParallel},   {"nfs", Storage::kNetwork},
    {"nfs4", Storage::kNetwork},         {"cifs", Storage::kNetwork},
    {"smb3", Storage::kNetwork},         {"9p", Storage::kNetwork},
    {"virtiofs", Storage::kNetwork},     {"fuse.sshfs", Storage::kNetwork},
    {"fuse.s3fs", Storage::kNetwork},    {"fuse.gcsfuse", Storage::kNetwork},
    {"fuse.rclone", Storage::kNetwork},  {"fuse.juicefs", Storage::kNetwork},
    {"fuse.JuiceFS", Storage::kNetwork}, {"fuse.mount-s3", Storage::kNetwork},
    {"tmpfs", Storage::kMemory},         {"ramfs", Storage::kMemory},
    {"ext2", Storage::kLocal},           {"ext3", Storage::kLocal},
    {"ext4", Storage::kLocal},           {"xfs", Storage::kLocal},
    {"btrfs", Storage::kLocal},          {"zfs", Storage::kLocal},
    {"f2fs", Storage::kLocal},           {"overlay", Storage::kLocal},
    {"erofs", Storage::kLocal},          {"squashfs", Storage::kLocal},
    {"bcachefs", Storage::kLocal},
};

bool ran_here(const analyze::Job& job) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return false;
  return std::find(job.hosts.begin(), job.hosts.end(), std::string_view(name.data())) !=
         job.hosts.end();
}

constexpr uint64_t kSlowReadNs = 1'000'000;  // a rotating disk takes several milliseconds

// Virtual disks claim to rotate. Believe it only if reads were slow.
bool reads_were_slow(const analyze::Profile& profile) {
  return std::any_of(profile.functions.begin(), profile.functions.end(), [](const auto& function) {
    return function.layer == analyze::Layer::kPosix && function.kind == wire::CallKind::kRead &&
           function.latency_ns.p95 >= kSlowReadNs;
  });
}

struct MountedStorage {
  Storage storage = Storage::kUnknown;
  std::string file_system;
};

MountedStorage storage_at(const std::filesystem::path& path, const analyze::Profile& profile) {
  std::error_code error;
  const auto absolute = std::filesystem::canonical(path, error);
  if (error) return {};
  const auto mount = mount_of(absolute);
  if (!mount) return {};
  MountedStorage place{.storage = storage_of_file_system(mount->file_system),
                       .file_system = mount->file_system};
  const bool claims_rotating =
      place.storage == Storage::kLocal && is_rotating(mount->device).value_or(false);
  if (claims_rotating && reads_were_slow(profile)) place.storage = Storage::kRotating;
  return place;
}

// Storage of the most used file of a kind that exists here; unknown if none does.
MountedStorage place_of_kind(const analyze::Profile& profile, analyze::FileKind kind) {
  std::vector<const analyze::FileStats*> files;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind == kind) files.push_back(&file);
  }
  const auto bytes = [](const analyze::FileStats* file) {
    return file->io.bytes_read + file->io.bytes_written;
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const auto* a, const auto* b) { return bytes(a) > bytes(b); });
  constexpr size_t kTriesMax = 100;
  for (size_t i = 0; i < std::min(files.size(), kTriesMax); ++i) {
    MountedStorage place = storage_at(files[i]->path, profile);
    if (!place.file_system.empty()) return place;
  }
  return {};
}

// The most free space in the usual places of local disks.
std::optional<uint64_t> local_disk_room(const analyze::Profile& profile) {
  std::vector<std::string> places = {
      "/tmp",     "/local",    "/nvme",      "/localscratch", "/local/scratch",
      "/scratch", "/mnt/nvme", "/mnt/local",  // path-check: allow, where clusters mount them
  };
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets variables here
  if (const char* directory = std::getenv("TMPDIR"); directory != nullptr) {
    places.emplace_back(directory);
  }
  std::optional<uint64_t> most;
  for (const std::string& path : places) {
    const Storage storage = storage_at(path, profile).storage;
    struct statvfs info{};
    if (storage != Storage::kLocal || statvfs(path.c_str(), &info) != 0) continue;
    most = std::max(most.value_or(0), uint64_t{info.f_bavail} * info.f_frsize);
  }
  return most;
}

}  // namespace

Storage storage_of_file_system(std::string_view name) {
  for (const FileSystem& each : kFileSystems) {
    if (each.name == name) return each.storage;
  }
  return Storage::kUnknown;
}

Machine detect_machine(const analyze::Profile& profile) {
  Machine machine;
  if (ran_here(profile.job)) {
    machine.cores = usable_cpu_count();
    machine.memory_bytes = memory_total_bytes();
    if (const auto limit = memory_limit_bytes(); limit && machine.memory_bytes) {
      machine.memory_bytes = std::min(*machine.memory_bytes, *limit);
    }
    machine.local_disk_bytes = local_disk_room(profile);
  }
  const MountedStorage data = place_of_kind(profile, analyze::FileKind::kData);
  machine.data_storage = data.storage;
  machine.data_file_system = data.file_system;
  machine.checkpoint_storage = place_of_kind(profile, analyze::FileKind::kCheckpoint).storage;
  return machine;
}

Result<uint64_t> parse_cores(std::string_view text) {
  constexpr uint64_t kCoresMax = 65'536;
  uint64_t cores = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cores);
  if (error != std::errc() || end != text.data() + text.size() || cores == 0 || cores > kCoresMax) {
    return fail(Errc::kInvalidArgument, "'{}' is not a number of cores (1 to {})", printable(text),
                kCoresMax);
  }
  return cores;
}

Result<Storage> parse_storage(std::string_view text) {
  for (size_t i = 0; i < std::size(kStorageNames); ++i) {
    if (kStorageNames[i] == text) return static_cast<Storage>(i);
  }
  if (const Storage storage = storage_of_file_system(text); storage != Storage::kUnknown) {
    return storage;
  }
  std::vector<std::string> known(std::begin(kStorageNames), std::end(kStorageNames));
  for (const FileSystem& each : kFileSystems) known.emplace_back(each.name);
  return fail(Errc::kInvalidArgument,
              "'{}' is not a kind of storage{}; use memory, local, rotating, parallel, network or "
              "the name of a file system, for example lustre",
              printable(text), did_you_mean(text, known));
}

Result<Machine> apply_overrides(Machine machine, const MachineWords& words) {
  if (!words.cores.empty()) {
    ASSIGN_OR_RETURN(machine.cores, parse_cores(words.cores).within("--cores"));
  }
  if (!words.memory.empty()) {
    ASSIGN_OR_RETURN(machine.memory_bytes, parse_bytes(words.memory).within("--memory"));
  }
  if (!words.local_disk.empty()) {
    ASSIGN_OR_RETURN(machine.local_disk_bytes,
                     parse_bytes(words.local_disk).within("--local-disk"));
  }
  if (!words.data_storage.empty()) {
    ASSIGN_OR_RETURN(machine.data_storage,
                     parse_storage(words.data_storage).within("--data-storage"));
    const bool is_file_system = storage_of_file_system(words.data_storage) != Storage::kUnknown;
    machine.data_file_system = is_file_system ? words.data_storage : "";
  }
  if (!words.checkpoint_storage.empty()) {
    ASSIGN_OR_RETURN(machine.checkpoint_storage,
                     parse_storage(words.checkpoint_storage).within("--checkpoint-storage"));
  }
  return machine;
}

}  // namespace millrace::advise
