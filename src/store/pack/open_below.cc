#include "store/pack/open_below.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace millrace::store {
namespace {

constexpr size_t kStepBytes = 3000;  // below PATH_MAX, even with a component of 255 bytes more

}  // namespace

Result<File> open_directory(const std::string& path) {
  return File::open(path, O_RDONLY | O_DIRECTORY);
}

Result<File> open_below(const File& directory, std::string_view path, int flags, unsigned mode) {
  File step;
  int from = directory.fd();
  while (path.size() > kStepBytes) {
    const size_t slash = path.rfind('/', kStepBytes);
    if (slash == std::string_view::npos) return fail_os(ENAMETOOLONG, "cannot open it");
    const int fd = ::openat(from, std::string(path.substr(0, slash)).c_str(),
                            O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_os(errno, "cannot open a directory above it");
    step = File(fd);
    from = fd;
    path.remove_prefix(slash + 1);
  }
  const int fd =
      ::openat(from, path.empty() ? "." : std::string(path).c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return fail_os(errno, "cannot open it");
  return File(fd);
}

Result<File> open_parent(const File& directory, std::string_view path) {
  const size_t slash = path.rfind('/');
  return open_below(directory, slash == std::string_view::npos ? "" : path.substr(0, slash),
                    O_PATH | O_DIRECTORY);
}

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

Status set_mode_and_time(const File& file, unsigned mode, int64_t mtime_ns) {
  if (::fchmod(file.fd(), mode) != 0) return fail_os(errno, "cannot set its mode");
  if (::futimens(file.fd(), FileTimes(mtime_ns).times) != 0) {
    return fail_os(errno, "cannot set its time");
  }
  return {};
}

bool is_same_file(const File& file, const std::filesystem::path& path) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(file.fd(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Status make_link_below(const File& directory, const std::string& path, std::string_view target,
                       int64_t mtime_ns) {
  const std::string name = base_name(path);
  ASSIGN_OR_RETURN(const File parent, open_parent(directory, path));
  if (::symlinkat(std::string(target).c_str(), parent.fd(), name.c_str()) != 0) {
    return fail_os(errno, "cannot create the link");
  }
  if (::utimensat(parent.fd(), name.c_str(), FileTimes(mtime_ns).times, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_os(errno, "cannot set its time");
  }
  return {};
}

}  // namespace millrace::store
