#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/random.h"
#include "wire/clock.h"

namespace millrace {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Status sync_directory(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const File file, File::open(directory, O_RDONLY | O_DIRECTORY));
  // Some network file systems cannot sync a directory and say EINVAL; rename is durable there.
  if (fsync(file.fd()) != 0 && errno != EINVAL) {
    return fail_os(errno, "cannot make the name durable").within(directory.native());
  }
  return {};
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary_path, File file)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), file_(std::move(file)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      file_(std::move(other.file_)),
      size_bytes_(other.size_bytes_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  // Not mkostemp: it makes the file 0600, and the umask cannot be read without setting it, which
  // would race with other threads.
  Random random(wire::read_cpu_counter());
  for (;;) {
    const auto temporary_path =
        directory_of(path) /
        fmt::format(".{}.{}.{:x}", path.filename().native(), getpid(), random.next());
    File file(::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.is_open()) return AtomicFile(path, temporary_path, std::move(file));
    if (errno != EEXIST) return fail_os(errno, "cannot create").within(path.native());
  }
}

Status AtomicFile::append(ByteView bytes) {
  RETURN_IF_ERROR(file_.write_at(size_bytes_, bytes).within(path_.native()));
  size_bytes_ += bytes.size();
  return {};
}

Status AtomicFile::commit() {
  struct stat replaced{};
  const bool replaces = stat(path_.c_str(), &replaced) == 0;
  if (replaces && fchmod(file_.fd(), replaced.st_mode & 07777) != 0) {
    return fail_os(errno, "cannot set the permissions").within(path_.native());
  }
  RETURN_IF_ERROR(file_.sync().within(path_.native()));
  RETURN_IF_ERROR(file_.close().within(path_.native()));
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return fail_os(errno, "cannot take its name").within(path_.native());
  }
  temporary_path_.clear();
  return sync_directory(directory_of(path_));
}

Status write_file_atomically(const std::filesystem::path& path, ByteView bytes) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

}  // namespace millrace
