#include "doctor/directory.h"

#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/io/mounts.h"
#include "base/text/units.h"

namespace millrace::doctor {
namespace {

constexpr uint64_t kFreeBytesWanted = uint64_t{1} << 30;

Finding failed(std::string fact, std::string fix) {
  return {.name = "directory",
          .state = State::kFailed,
          .fact = std::move(fact),
          .without = "it can hold neither data nor results",
          .fix = std::move(fix)};
}

void look_at_room(DirectoryFindings& directory) {
  struct statvfs info{};
  if (statvfs(directory.path.c_str(), &info) != 0) return;
  directory.free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  directory.total_bytes = uint64_t{info.f_blocks} * info.f_frsize;
  directory.free_inodes = info.f_favail;
  directory.total_inodes = info.f_files;
  if (directory.free_bytes < kFreeBytesWanted) {
    directory.findings.push_back(
        {.name = "free space",
         .state = State::kLimited,
         .fact = fmt::format("{} free", format_bytes(directory.free_bytes)),
         .without = "datasets and traces do not fit",
         .fix = "free some space: du -xh --max-depth=1 shows what takes it"});
  }
  if (directory.total_inodes > 0 && directory.free_inodes < 100'000) {
    directory.findings.push_back(
        {.name = "free inodes",
         .state = State::kLimited,
         .fact = fmt::format("room for {} more files", format_exact(directory.free_inodes)),
         .without = "a dataset with one file per sample does not fit",
         .fix = "pack the samples into fewer files, or choose another file system"});
  }
}

}  // namespace

DirectoryFindings look_at_directory(const std::filesystem::path& path) {
  DirectoryFindings directory;
  directory.path = path;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    directory.findings.push_back(
        failed("it does not exist", fmt::format("mkdir -p {}", path.native())));
    return directory;
  }
  if (!std::filesystem::status_known(status)) {
    directory.findings.push_back(
        failed(fmt::format("cannot be examined: {}", describe_os_error(error.value())),
               "choose a directory you can reach"));
    return directory;
  }
  if (!std::filesystem::is_directory(status)) {
    directory.findings.push_back(failed("it is not a directory", "give a directory"));
    return directory;
  }
  const auto absolute = std::filesystem::canonical(path, error);
  if (const auto mount = mount_of(absolute)) {
    directory.file_system = mount->file_system;
    directory.source = mount->source;
    directory.rotating = is_rotating(mount->device);
  }
  look_at_room(directory);
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    directory.findings.push_back(failed(fmt::format("cannot write: {}", describe_os_error(errno)),
                                        "choose a directory you own, or request access"));
    return directory;
  }
  directory.usable = true;
  return directory;
}

void measure_directory(DirectoryFindings& directory, SpeedOptions options) {
  // The probe must not fill the disk.
  options.probe_size_bytes = std::min(options.probe_size_bytes, directory.free_bytes / 4);
  options.memory_only = directory.file_system == "tmpfs" || directory.file_system == "ramfs";
  auto speed = measure_directory_speed(directory.path, options);
  if (speed.ok()) {
    directory.speed = *std::move(speed);
    return;
  }
  const Errc code = speed.error().code();
  const bool too_small = code == Errc::kExhausted;
  const bool broken = code == Errc::kIo || code == Errc::kCorrupt;
  directory.findings.push_back({.name = "speed",
                                .state = too_small ? State::kLimited : State::kFailed,
                                .fact = fmt::format("not measured: {}", speed.error().message()),
                                .without = "its speed is unknown",
                                .fix = too_small ? "free some space"
                                       : broken  ? "look for errors of its device in dmesg"
                                                 : "choose a directory you may write to"});
}

}  // namespace millrace::doctor
