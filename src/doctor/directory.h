// DirectoryFindings: the file system, the free space and the speed of one directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "doctor/directory_speed.h"
#include "doctor/finding.h"

namespace millrace::doctor {

struct DirectoryFindings {
  std::filesystem::path path;
  bool usable = false;           // it is a directory we can write to
  std::string file_system;       // "ext4"; empty if unknown
  std::string source;            // what is mounted: "/dev/vda", "server:/export"
  std::optional<bool> rotating;  // unset if the kernel does not know the device
  uint64_t free_bytes = 0;       // excludes what is reserved for root
  uint64_t total_bytes = 0;
  uint64_t free_inodes = 0;  // 0 with total_inodes 0: the file system does not count them
  uint64_t total_inodes = 0;
  std::vector<Finding> findings;  // problems only
  std::optional<DirectorySpeed> speed;
};

// Never fails: whatever is wrong with the directory becomes a finding.
DirectoryFindings look_at_directory(const std::filesystem::path& path);

// Adds the speed, or a finding that says why it could not be measured. Uses a smaller probe if the
// directory has little free space.
void measure_directory(DirectoryFindings& directory, SpeedOptions options);

}  // namespace millrace::doctor
