// DirectoryFindings: what a directory is good for: its file system, its room, its speed.
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
  std::string file_system;       // "ext4"; empty where not known
  std::string source;            // what is mounted: "/dev/vda", "server:/export"
  std::optional<bool> rotating;  // where the kernel knows the device
  uint64_t free_bytes = 0;       // for us, not for root alone
  uint64_t total_bytes = 0;
  uint64_t free_inodes = 0;  // 0 with total_inodes 0: the file system does not count them
  uint64_t total_inodes = 0;
  std::vector<Finding> findings;  // of a directory with no problem: none
  std::optional<DirectorySpeed> speed;
};

// Never fails: what is wrong with the directory is among its findings.
DirectoryFindings look_at_directory(const std::filesystem::path& path);

// Adds the speed, or a finding that says why it could not be measured. The probe is made smaller
// where the directory has little room.
void measure_directory(DirectoryFindings& directory, SpeedOptions options);

}  // namespace millrace::doctor
