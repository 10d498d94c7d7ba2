// Cgroup: the files of the control groups that this process is in, of cgroup v1 and v2.
//
// A limit of any group counts: that of the process's own group, and of all groups around it. In a
// container, the own group is usually the root of what is mounted. Outside, and in a job of a batch
// system, it is somewhere below.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The same file has another name in the two versions.
struct CgroupFile {
  std::string_view controller;  // "memory", "cpu"
  std::string_view v1;
  std::string_view v2;
};

struct CgroupPath {
  std::filesystem::path path;
  bool is_v2 = false;
};

// Where the file may be: in the own group first, then in the groups around it. `cgroup` and
// `mountinfo` are what the files of these names in /proc/self contain.
std::vector<CgroupPath> cgroup_paths(const CgroupFile& file, std::string_view cgroup,
                                     std::string_view mountinfo);

struct CgroupValue {
  std::string text;
  bool is_v2 = false;
};

// What those of the files contain that exist.
std::vector<CgroupValue> cgroup_values(const CgroupFile& file);

}  // namespace millrace
