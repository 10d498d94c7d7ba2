#include "base/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/io/directory.h"
#include "base/numbers/random.h"
#include "wire/clock.h"

namespace millrace {
namespace {

// The descriptor that a path in /proc/self/fd stands for.
std::optional<int> own_descriptor(const std::filesystem::path& path) {
  std::error_code error;
  const auto directory = std::filesystem::canonical(directory_of(path), error);
  if (error || directory != std::filesystem::canonical("/proc/self/fd", error)) return std::nullopt;
  const std::string name = path.filename().string();
  int fd = -1;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), fd);
  if (failed != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return fd;
}

// The target of a path after following links. If `open` is open, write to it directly.
struct Destination {
  std::filesystem::path path;
  File open;
};

Result<Destination> find_destination(std::filesystem::path path) {
  constexpr int kLinksMax = 40;  // same as the kernel's
  for (int links = 0; links < kLinksMax; ++links) {
    // Duplicate it instead of opening it again: a second open would start at byte 0, overwrite what
    // is there, and fail for a socket.
    if (const auto fd = own_descriptor(path)) {
      File open(fcntl(*fd, F_DUPFD_CLOEXEC, 0));
      if (!open.is_open()) return fail_os(errno, "cannot write").within(path.native());
      return Destination{std::move(path), std::move(open)};
    }
    std::error_code not_a_link;
    const auto target = std::filesystem::read_symlink(path, not_a_link);
    if (!not_a_link) {
      path = directory_of(path) / target;
      continue;
    }
    struct stat info{};
    if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return Destination{path, File()};
    ASSIGN_OR_RETURN(File open, File::open(path, O_WRONLY));
    return Destination{std::move(path), std::move(open)};
  }
  return fail_os(ELOOP, "cannot create").within(path.native());
}

// write(2), not pwrite(2): a pipe has no positions.
Status write_next(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) {
      return fail_os(errno, fmt::format("cannot write {} bytes", bytes.size()));
    }
    if (put > 0) bytes = bytes.subspan(static_cast<size_t>(put));
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

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& given_path, unsigned mode) {
  ASSIGN_OR_RETURN(Destination destination, find_destination(given_path));
  const std::filesystem::path& path = destination.path;
  if (destination.open.is_open()) return AtomicFile(path, {}, std::move(destination.open));
  ASSIGN_OR_RETURN(NewFile made, create_beside(path, mode));
  return AtomicFile(path, std::move(made.path), std::move(made.file));
}

Result<NewFile> create_beside(const std::filesystem::path& path, unsigned mode) {
  // Not mkostemp: it makes the file 0600, and the umask cannot be read without setting it, which
  // would race with other threads.
  Random random(wire::read_cpu_counter());
  for (;;) {
    const auto temporary_path =
        directory_of(path) /
        fmt::format(".{}.{}.{:x}", path.filename().native(), getpid(), random.next());
    File file(::open(temporary_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file.is_open()) return NewFile{temporary_path, std::move(file)};
    if (errno != EEXIST) return fail_os(errno, "cannot create").within(path.native());
  }
}

bool is_temporary_name(std::string_view name, std::string_view final_name) {
  if (!name.starts_with('.') || !name.substr(1).starts_with(final_name)) return false;
  name.remove_prefix(1 + final_name.size());
  for (const std::string_view digits : {"0123456789", "0123456789abcdef"}) {
    if (!name.starts_with('.')) return false;
    name.remove_prefix(1);
    const size_t count = std::min(name.find_first_not_of(digits), name.size());
    if (count == 0) return false;
    name.remove_prefix(count);
  }
  return name.empty();
}

Status AtomicFile::append(ByteView bytes) {
  if (temporary_path_.empty()) return write_next(file_.fd(), bytes).within(path_.native());
  RETURN_IF_ERROR(file_.write_at(size_bytes_, bytes).within(path_.native()));
  size_bytes_ += bytes.size();
  return {};
}

Status AtomicFile::commit() {
  if (temporary_path_.empty()) return file_.close().within(path_.native());
  struct stat replaced{};
  const bool replaces = stat(path_.c_str(), &replaced) == 0;
  if (replaces && fchmod(file_.fd(), replaced.st_mode & 07777) != 0) {
    return fail_os(errno, "cannot set the permissions").within(path_.native());
  }
  RETURN_IF_ERROR(file_.sync().within(path_.native()));
  RETURN_IF_ERROR(file_.close().within(path_.native()));
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return fail_os(errno, "cannot rename the temporary file to it").within(path_.native());
  }
  temporary_path_.clear();
  return sync_directory(directory_of(path_));
}

bool is_standard_output(const std::filesystem::path& path) {
  struct stat named{};
  struct stat own{};
  return stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &own) == 0 &&
         named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

Status write_file_atomically(const std::filesystem::path& path, ByteView bytes, unsigned mode) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, mode));
  RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

}  // namespace millrace
