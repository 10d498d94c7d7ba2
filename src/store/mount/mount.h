// mount: the files of a pack as a file system of the kernel, for programs that the preload library
// cannot reach: static ones, and those that make system calls themselves.
//
// Read-only, by FUSE (an optional part of the build). It needs no root if fusermount3 is installed.
// A file that is damaged is read from the origin, with one line in the log; without an origin it
// gives EIO.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "store/service/node_folder.h"

namespace millrace::store {

struct MountOptions {
  std::filesystem::path directory;  // where to mount; it must exist
  std::filesystem::path packs;      // the directory of a pack; empty: `node`
  std::filesystem::path origin;     // of a pack: read what it lost here; empty: as it was packed
  NodeStatus node;                  // a running store
  bool is_background = false;       // returns in a child; this process ends when it is mounted
  // Problems, one line each; called by any thread.
  std::function<void(const std::string& line)> log;
};

// Mounts, and serves until someone unmounts it, or until SIGTERM, SIGINT or SIGHUP. A mount point
// that a killed process left behind is cleaned up before. REQUIRES: this process has one thread
Status serve_mount(MountOptions options);

// Ends a mount of ours, alive or dead. Fails if programs still use it.
Status unmount(const std::filesystem::path& directory);

// For serve_mount(): removes a dead mount of ours. Fails if the directory cannot be mounted on.
// Returns its path, absolute and without links.
Result<std::filesystem::path> prepare_mount_point(
    const std::filesystem::path& directory, const std::function<void(const std::string&)>& log);

inline constexpr char kMountKind[] = "fuse.millrace";  // in /proc/mounts

}  // namespace millrace::store
