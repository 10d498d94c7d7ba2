// Mounts: which file system a path is on, and what the kernel says about its device.
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

// The mount that contains `path` (absolute, without links), from the text of mountinfo. If several
// have the same mount point, the last wins, as in the kernel. Malformed lines are skipped.
std::optional<Mount> find_mount(std::string_view mountinfo, const std::filesystem::path& path);

// The same, from the mountinfo of this process.
std::optional<Mount> mount_of(const std::filesystem::path& path);

// Whether a file system, named as in mountinfo ("nfs4", "fuse.glusterfs"), gives files of other
// machines. Those of FUSE count as such: the name rarely tells.
bool is_shared(std::string_view file_system);

// What the kernel says about a device ("254:0"); nullopt if it does not know. Virtual disks often
// claim to rotate.
std::optional<bool> is_rotating(const std::string& device);

}  // namespace millrace
