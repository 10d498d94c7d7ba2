// Mounts: which file system holds a path, and what the kernel says of its device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// A line of /proc/self/mountinfo.
struct Mount {
  std::filesystem::path point;
  std::string device;  // "254:0"
  std::string file_system;
  std::string source;
};

// The mount that holds `path` (absolute, without links), from the text of mountinfo; the last of
// several on one point wins, as it does in the kernel. Lines that are not understood are passed
// over.
std::optional<Mount> find_mount(std::string_view mountinfo, const std::filesystem::path& path);

// The same, from this process's own mountinfo.
std::optional<Mount> mount_of(const std::filesystem::path& path);

// What the kernel says of a device ("254:0"); nothing where it does not know. Virtual disks often
// claim to rotate.
std::optional<bool> is_rotating(const std::string& device);

}  // namespace millrace
