#include "base/io/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/io/file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

// Fails if other users could rename or remove entries of `directory`.
Status check_parent(const fs::path& directory) {
  struct stat info{};
  if (stat(directory.c_str(), &info) != 0) {
    return fail_os(errno, "cannot read its attributes").within(directory.native());
  }
  const bool is_shared = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool is_sticky = (info.st_mode & S_ISVTX) != 0;
  if (info.st_uid == geteuid() || !is_shared || is_sticky) return {};
  return fail(
      Errc::kPermission,
      "{}: belongs to user {} and others may write to it (mode {:o}), so they could replace "
      "its content; use a directory of your own, for example one below it",
      directory.native(), info.st_uid, info.st_mode & 07777);
}

}  // namespace

Status make_directories(const fs::path& path) {
  if (mkdir(path.c_str(), kOwnerOnly) == 0) return {};
  int error = errno;
  const fs::path parent = path.parent_path();
  if (error == ENOENT && !parent.empty() && parent != path) {
    RETURN_IF_ERROR(make_directories(parent));
    if (mkdir(path.c_str(), kOwnerOnly) == 0) return {};
    error = errno;
  }
  // Do not rely on EEXIST: a read-only file system returns EROFS for a directory that exists.
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {};
  return fail_os(error, "cannot create the directory").within(path.native());
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status sync_directory(const fs::path& directory) {
  ASSIGN_OR_RETURN(const File file, File::open(directory, O_RDONLY | O_DIRECTORY));
  // Some network file systems cannot sync a directory and return EINVAL; rename is durable there.
  if (fsync(file.fd()) != 0 && errno != EINVAL) {
    return fail_os(errno, "cannot sync the directory").within(directory.native());
  }
  return {};
}

Status make_private_directory(const fs::path& path) {
  RETURN_IF_ERROR(make_directories(path));
  RETURN_IF_ERROR(check_parent(directory_of(path)));
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) {
    return fail(Errc::kPermission, "{}: is a symbolic link, which is not followed; remove it",
                path.native());
  }
  ASSIGN_OR_RETURN(const File directory, File::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info{};
  if (fstat(directory.fd(), &info) != 0) {
    return fail_os(errno, "cannot read its attributes").within(path.native());
  }
  if (info.st_uid != geteuid()) {
    return fail(Errc::kPermission,
                "{}: belongs to user {}, but this program runs as user {}; use another directory, "
                "or have this one removed",
                path.native(), info.st_uid, geteuid());
  }
  if ((info.st_mode & kOthers) != 0 && fchmod(directory.fd(), kOwnerOnly) != 0) {
    return fail_os(errno, "cannot make it private (mode 0700)").within(path.native());
  }
  return {};
}

}  // namespace millrace
