#include "base/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace millrace {

// A file that another program has a lease on (Samba, our own store) must be waited for, and is
// opened again without O_NONBLOCK. The flag does not stay: io_uring would not wait for slow files.
Result<File> open_input(const std::filesystem::path& path, int more_flags) {
  const int flags = O_RDONLY | O_CLOEXEC | more_flags;
  const int fd = ::open(path.c_str(), flags | O_NONBLOCK);
  if (fd < 0 && errno != ENXIO) return File::open(path, flags);
  File file(fd);
  struct stat info{};
  const bool is_known = fd >= 0 && fstat(fd, &info) == 0;
  if (!is_known || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
    return fail(Errc::kInvalidArgument, "{}: is a pipe or a socket; give the name of a file",
                path.native());
  }
  fcntl(fd, F_SETFL, flags);
  return file;
}

}  // namespace millrace
