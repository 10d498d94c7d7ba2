#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "base/io/mounts.h"
#include "base/system/subprocess.h"
#include "base/text/text.h"
#include "store/mount/mount.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

// Only the directory above is looked up: a dead mount cannot be.
Result<fs::path> real_path(const fs::path& directory) {
  std::error_code error;
  fs::path path = fs::absolute(directory, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const fs::path parent = fs::canonical(path.parent_path(), error);
  if (error) return fail_os(error.value(), "cannot find it").within(printable(directory.string()));
  path = parent / path.filename();
  const fs::path real = fs::canonical(path, error);  // it may be a link
  return error ? path : real;
}

bool is_own_mount(const fs::path& path) {
  const auto mount = mount_of(path);
  return mount && mount->point == path && mount->file_system == kMountKind;
}

// Whether the process of a mount has ended. Not asked by stat(): the kernel may still know the
// attributes of the directory, but it asks the process about space each time.
bool is_dead(const fs::path& path) {
  struct statvfs space{};
  return ::statvfs(path.c_str(), &space) != 0 && errno == ENOTCONN;
}

enum class Force { kNo, kDetach };  // kDetach: even if programs use it

Status end_mount(const fs::path& path, Force force) {
  const bool is_forced = force == Force::kDetach;
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW | (is_forced ? MNT_DETACH : 0)) == 0) return {};
  if (errno == EBUSY) {
    return fail(Errc::kIo, "programs still use it; `fuser -m {}` lists them",
                printable(path.string()));
  }
  if (errno != EPERM) return fail_os(errno, "cannot unmount");
  ASSIGN_OR_RETURN(const SubprocessResult done,
                   run_subprocess({"fusermount3", is_forced ? "-uz" : "-u", path.string()})
                       .within("without root, unmounting needs the package fuse3"));
  if (done.exit_code == 0) return {};
  return fail(Errc::kIo, "cannot unmount: {}", printable(done.output));
}

}  // namespace

Status unmount(const fs::path& directory) {
  const std::string shown = printable(directory.string());
  ASSIGN_OR_RETURN(const fs::path path, real_path(directory));
  if (!is_own_mount(path)) {
    return fail(Errc::kNotFound, "{}: `millrace store mount` has mounted nothing here", shown);
  }
  return end_mount(path, Force::kNo).within(shown);
}

Result<fs::path> prepare_mount_point(const fs::path& directory,
                                     const std::function<void(const std::string&)>& log) {
  const std::string shown = printable(directory.string());
  ASSIGN_OR_RETURN(const fs::path path, real_path(directory));
  if (is_dead(path)) {
    if (!is_own_mount(path)) {
      return fail(Errc::kIo,
                  "{}: another file system was mounted here, and its process is dead; "
                  "`fusermount3 -u {}` removes it",
                  shown, shown);
    }
    log(fmt::format("{}: removing a mount whose process was killed", shown));
    RETURN_IF_ERROR(end_mount(path, Force::kDetach).within(shown));
  }
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail_os(errno, "cannot mount here").within(shown);
  if (!S_ISDIR(status.st_mode)) {
    return fail(Errc::kInvalidArgument, "{}: is not a directory", shown);
  }
  if (is_own_mount(path)) {
    return fail(Errc::kAlreadyExists,
                "{}: a pack is mounted here already; `millrace store unmount {}` ends it", shown,
                shown);
  }
  return path;
}

}  // namespace millrace::store
