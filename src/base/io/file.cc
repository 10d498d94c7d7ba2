#include "base/io/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/io/input_file.h"

namespace millrace {

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<File> File::open(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    const bool creates = (flags & O_CREAT) != 0;
    return fail_os(errno, creates ? "cannot create" : "cannot open").within(path.native());
  }
  return File(fd);
}

Result<uint64_t> File::size_bytes() const {
  struct stat info{};
  if (fstat(fd_, &info) != 0) return fail_os(errno, "cannot get the size");
  return static_cast<uint64_t>(info.st_size);
}

Result<size_t> File::read_at(uint64_t offset_bytes, MutableByteView out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int os_error = errno;
      return fail_os(os_error, fmt::format("cannot read {} bytes at byte {}", out.size() - done,
                                           offset_bytes + done));
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Status File::read_exactly_at(uint64_t offset_bytes, MutableByteView out) const {
  ASSIGN_OR_RETURN(const size_t done, read_at(offset_bytes, out));
  if (done == out.size()) return {};
  return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but the file ends at {}", out.size(),
              offset_bytes, offset_bytes + done);
}

Status File::write_at(uint64_t offset_bytes, ByteView bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(fd_, bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(offset_bytes + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int os_error = errno;
      return fail_os(os_error, fmt::format("cannot write {} bytes at byte {}", bytes.size() - done,
                                           offset_bytes + done));
    }
    done += static_cast<size_t>(put);
  }
  return {};
}

Status File::sync() const {
  if (fdatasync(fd_) != 0) return fail_os(errno, "cannot sync the data");
  return {};
}

Status File::close() {
  // Not repeated on EINTR: Linux has released the descriptor even then.
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    return fail_os(errno, "cannot close");
  }
  return {};
}

int rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // NFS, and others that cannot exclude that somebody creates it in between.
  struct stat info{};
  if (lstat(to.c_str(), &info) == 0) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

Result<std::string> read_file(const std::filesystem::path& path, uint64_t limit_bytes) {
  ASSIGN_OR_RETURN(const File file, open_input(path));
  ASSIGN_OR_RETURN(const uint64_t expected_bytes, file.size_bytes().within(path.native()));
  std::string content;
  // Read one byte more than expected, so that the first read also detects the end. Files in /proc
  // claim to be empty, and those in /proc/sys return everything in the first read or nothing.
  constexpr size_t kUnknownSizeBytes = size_t{64} << 10;
  size_t want_bytes = expected_bytes == 0
                          ? kUnknownSizeBytes
                          : static_cast<size_t>(std::min(expected_bytes, limit_bytes)) + 1;
  for (;;) {
    const size_t have_bytes = content.size();
    content.resize(have_bytes + want_bytes);
    const auto tail = std::as_writable_bytes(std::span(content)).subspan(have_bytes);
    ASSIGN_OR_RETURN(const size_t got_bytes, file.read_at(have_bytes, tail).within(path.native()));
    content.resize(have_bytes + got_bytes);
    if (content.size() > limit_bytes) {
      return fail(Errc::kInvalidArgument,
                  "{}: is larger than the limit of {} bytes for such a file", path.native(),
                  limit_bytes);
    }
    if (got_bytes < want_bytes) return content;
    want_bytes = kUnknownSizeBytes;
  }
}

}  // namespace millrace
