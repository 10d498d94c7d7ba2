#include "replay/issue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"

namespace millrace::replay {
namespace {

using wire::Call;

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
constexpr size_t kTransferMax = 0x7ffff000;  // the kernel moves no more in one call
constexpr size_t kMappedPiece = size_t{128} << 10;

// Flags of a recorded open that the replay repeats. Not O_NOATIME, which only the owner may use.
constexpr int kRepeatedFlags = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECT |
                               O_SYNC | O_DSYNC | O_DIRECTORY | O_NONBLOCK | O_TMPFILE | O_PATH;

uint64_t now_ns() { return static_cast<uint64_t>(monotonic_now().count()); }

template <typename Body>
Outcome timed(Body body) {
  Outcome outcome;
  errno = 0;
  outcome.begin_ns = now_ns();
  outcome.result = static_cast<int64_t>(body());
  outcome.error = outcome.result < 0 ? errno : 0;
  outcome.end_ns = now_ns();
  return outcome;
}

FILE* stream_of(const OpenHandle& handle) { return reinterpret_cast<FILE*>(handle.value); }
DIR* directory_of(const OpenHandle& handle) { return reinterpret_cast<DIR*>(handle.value); }

int open_flags(const Handle& handle) {
  return (static_cast<int>(handle.flags) & kRepeatedFlags) | O_CLOEXEC | O_NOFOLLOW;
}

// "r+" for the flags of open(2).
const char* stream_mode(uint32_t flags) {
  const bool both = (flags & O_ACCMODE) == O_RDWR;
  if ((flags & O_APPEND) != 0) return both ? "a+" : "a";
  if ((flags & O_TRUNC) != 0) return both ? "w+" : "w";
  return both || (flags & O_ACCMODE) == O_WRONLY ? "r+" : "r";
}

int64_t open_descriptor(Call call, const Handle& handle, const char* name) {
  switch (call) {
    case Call::kOpenat:
      return openat(AT_FDCWD, name, open_flags(handle), kFileMode);
    case Call::kCreat:
      return creat(name, kFileMode);
    default:
      return open(name, open_flags(handle), kFileMode);
  }
}

int64_t open_stream(Call call, const Handle& handle, const char* name) {
  FILE* stream = nullptr;
  if (call == Call::kFopen || call == Call::kFreopen) {
    stream = fopen(name, stream_mode(handle.flags));
  } else {
    const int fd = open(name, open_flags(handle), kFileMode);
    if (fd < 0) return -1;
    stream = fdopen(fd, stream_mode(handle.flags));
  }
  return stream == nullptr ? -1 : reinterpret_cast<int64_t>(stream);
}

// ---- data -----------------------------------------------------------------------------------

ssize_t read_at_position(const Step& step, int fd, void* data, size_t size) {
  if (step.call != Call::kReadv) return read(fd, data, size);
  const iovec buffer{data, size};
  return readv(fd, &buffer, 1);
}

ssize_t write_at_position(const Step& step, int fd, void* data, size_t size) {
  if (step.call != Call::kWritev) return write(fd, data, size);
  const iovec buffer{data, size};
  return writev(fd, &buffer, 1);
}

ssize_t read_at(const Step& step, int fd, void* data, size_t size, off_t offset) {
  iovec buffer{data, size};
  if (step.call == Call::kPreadv) return preadv(fd, &buffer, 1, offset);
  if (step.call == Call::kPreadv2) return preadv2(fd, &buffer, 1, offset, 0);
  return pread(fd, data, size, offset);
}

ssize_t write_at(const Step& step, int fd, void* data, size_t size, off_t offset) {
  iovec buffer{data, size};
  if (step.call == Call::kPwritev) return pwritev(fd, &buffer, 1, offset);
  if (step.call == Call::kPwritev2) return pwritev2(fd, &buffer, 1, offset, 0);
  return pwrite(fd, data, size, offset);
}

Outcome move_bytes(const Step& step, Action action, const Place& place, const Buffer& buffer) {
  const int fd = place.file.descriptor();
  const size_t size = std::min({step.size_bytes(), kTransferMax, uint64_t{buffer.size_bytes()}});
  const bool is_write = writes(action);
  const bool has_offset = step.offset != wire::kNoOffset && !(is_write && place.appends);
  const auto offset = static_cast<off_t>(step.offset);
  bool at_position = action == Action::kRead || action == Action::kWrite;
  if (at_position && has_offset) {
    if (place.is_shared) {
      at_position = false;
    } else if (!step.has(kAtPosition)) {
      lseek(fd, offset, SEEK_SET);
    }
  }
  if (at_position || !has_offset) {
    return timed([&] {
      return is_write ? write_at_position(step, fd, buffer.data(), size)
                      : read_at_position(step, fd, buffer.data(), size);
    });
  }
  return timed([&] {
    return is_write ? write_at(step, fd, buffer.data(), size, offset)
                    : read_at(step, fd, buffer.data(), size, offset);
  });
}

Outcome use_stream(const Step& step, Action action, const Place& place, const Buffer& buffer) {
  FILE* stream = stream_of(place.file);
  const size_t size = std::min<uint64_t>(step.size_bytes(), buffer.size_bytes());
  if (action == Action::kFlushStream) return timed([&] { return fflush(stream); });
  const bool is_there = step.has(kAtPosition) && !place.is_shared;
  if (step.offset != wire::kNoOffset && !place.appends && !is_there) {
    const auto offset = static_cast<off_t>(step.offset);
    if (ftello(stream) != offset) fseeko(stream, offset, SEEK_SET);
  }
  return timed([&]() -> int64_t {
    const bool is_write = action == Action::kWriteStream;
    const size_t moved =
        is_write ? fwrite(buffer.data(), 1, size, stream) : fread(buffer.data(), 1, size, stream);
    return moved == 0 && size > 0 && ferror(stream) != 0 ? -1 : static_cast<int64_t>(moved);
  });
}

// Reads the pages into memory without touching them: a file that another thread shortens must not
// kill the replay.
int64_t populate(int fd, uint64_t offset, uint64_t length, const Buffer& buffer) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const size_t mapped_size = length + (offset - begin);
  void* mapped = mmap(nullptr, mapped_size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return -1;
  int64_t result = static_cast<int64_t>(length);
#ifdef MADV_POPULATE_READ
  const bool populated = madvise(mapped, mapped_size, MADV_POPULATE_READ) == 0;
#else
  const bool populated = false;
#endif
  munmap(mapped, mapped_size);
  // Before Linux 5.14, or beyond the end of the file.
  for (uint64_t at = 0; !populated && at < length; at += kMappedPiece) {
    const size_t piece = std::min({length - at, kMappedPiece, uint64_t{buffer.size_bytes()}});
    const ssize_t count = pread(fd, buffer.data(), piece, static_cast<off_t>(offset + at));
    if (count < 0) return -1;
    if (count == 0) return static_cast<int64_t>(at);
  }
  return result;
}

Outcome transfer_bytes(const Step& step, const Place& place) {
  const int from = place.file.descriptor();
  const int to = place.other_file.descriptor();
  const size_t size = std::min<uint64_t>(step.size_bytes(), kTransferMax);
  auto from_offset = static_cast<off_t>(place.transfer->from_offset);
  auto to_offset = static_cast<off_t>(place.transfer->to_offset);
  off_t* const from_place = place.transfer->from_offset == wire::kNoOffset ? nullptr : &from_offset;
  const bool has_place = place.transfer->to_offset != wire::kNoOffset && !place.appends;
  if (step.call == Call::kCopyFileRange) {
    return timed([&] {
      return copy_file_range(from, from_place, to, has_place ? &to_offset : nullptr, size, 0);
    });
  }
  if (has_place) lseek(to, to_offset, SEEK_SET);
  return timed([&] { return sendfile(to, from, from_place, size); });
}

// ---- other calls on open files --------------------------------------------------------------

Outcome advise(const Step& step, int fd) {
  const auto offset = step.offset == wire::kNoOffset ? 0 : static_cast<off_t>(step.offset);
  if (step.call == Call::kReadahead) {
    return timed([&] { return readahead(fd, offset, step.size_bytes()); });
  }
  return timed([&] {
    const auto size = static_cast<off_t>(step.size_bytes());
    const int error = posix_fadvise(fd, offset, size, static_cast<int>(step.result));
    errno = error;
    return error == 0 ? 0 : -1;
  });
}

Outcome read_directory(DIR* directory) {
  return timed([&]() -> int64_t {
    const struct dirent* entry = readdir(directory);
    return entry != nullptr ? 1 : errno == 0 ? 0 : -1;
  });
}

Outcome read_entries(const Step& step, int fd, const Buffer& buffer) {
  const size_t size = std::min<uint64_t>(std::max(step.size, 512u), buffer.size_bytes());
  return timed([&] { return getdents64(fd, buffer.data(), size); });
}

Outcome synchronize(const Step& step, int fd) {
  if (step.call == Call::kFdatasync) return timed([&] { return fdatasync(fd); });
  return timed([&] { return fsync(fd); });
}

Outcome use_open_file(const Step& step, Action action, const Place& place, const Buffer& buffer) {
  const int fd = place.file.descriptor();
  const auto offset = step.offset == wire::kNoOffset ? 0 : static_cast<off_t>(step.offset);
  struct stat status{};
  switch (action) {
    case Action::kReadMapped:
      return timed([&] { return populate(fd, step.offset, step.result_bytes(), buffer); });
    case Action::kTransfer:
      return transfer_bytes(step, place);
    case Action::kReadStream:
    case Action::kWriteStream:
    case Action::kFlushStream:
      return use_stream(step, action, place, buffer);
    case Action::kSeek:
      return timed([&] { return lseek(fd, offset, SEEK_SET); });
    case Action::kSync:
      return synchronize(step, fd);
    case Action::kTruncate:
      return timed([&] { return ftruncate(fd, offset); });
    case Action::kAllocate:
      return timed([&] {
        const auto size = static_cast<off_t>(step.size_bytes());
        return fallocate(fd, static_cast<int>(step.result), offset, size);
      });
    case Action::kAdvise:
      return advise(step, fd);
    case Action::kStatOpen:
      return timed([&] { return fstat(fd, &status); });
    case Action::kReadDirectory:
      return read_directory(directory_of(place.file));
    case Action::kRewindDirectory:
      return timed([&] {
        rewinddir(directory_of(place.file));
        return 0;
      });
    case Action::kReadEntries:
      return read_entries(step, fd, buffer);
    default:
      return move_bytes(step, action, place, buffer);
  }
}

// ---- calls on names -------------------------------------------------------------------------

Outcome look_up(Call call, const char* name) {
  struct stat status{};
  switch (call) {
    case Call::kLstat:
      return timed([&] { return lstat(name, &status); });
    case Call::kFstatat:
      return timed([&] { return fstatat(AT_FDCWD, name, &status, AT_SYMLINK_NOFOLLOW); });
    case Call::kStatx: {
      struct statx extended{};
      return timed(
          [&] { return statx(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &extended); });
    }
    case Call::kAccess:
      return timed([&] { return access(name, F_OK); });
    case Call::kFaccessat:
      return timed([&] { return faccessat(AT_FDCWD, name, F_OK, 0); });
    default:
      return timed([&] { return stat(name, &status); });
  }
}

Outcome scan_directory(const char* name) {
  struct dirent** entries = nullptr;
  const Outcome outcome = timed([&] { return scandir(name, &entries, nullptr, nullptr); });
  for (int64_t i = 0; i < outcome.result; ++i) free(entries[i]);
  free(entries);
  return outcome;
}

Outcome remove_name(Call call, const Place& place) {
  if (call == Call::kRemove) return timed([&] { return remove(place.name); });
  if (call == Call::kUnlink) return timed([&] { return unlink(place.name); });
  const int flags = place.is_directory ? AT_REMOVEDIR : 0;
  return timed([&] { return unlinkat(AT_FDCWD, place.name, flags); });
}

Outcome rename_file(Call call, const char* from, const char* to) {
  if (call == Call::kRename) return timed([&] { return rename(from, to); });
  return timed([&] { return renameat(AT_FDCWD, from, AT_FDCWD, to); });
}

Outcome use_name(const Step& step, Action action, const Place& place) {
  switch (action) {
    case Action::kTruncateName:
      return timed([&] { return truncate(place.name, static_cast<off_t>(step.offset)); });
    case Action::kScanDirectory:
      return scan_directory(place.name);
    case Action::kMakeDirectory:
      if (step.call == Call::kMkdirat) {
        return timed([&] { return mkdirat(AT_FDCWD, place.name, kDirectoryMode); });
      }
      return timed([&] { return mkdir(place.name, kDirectoryMode); });
    case Action::kRemoveDirectory:
      return timed([&] { return rmdir(place.name); });
    case Action::kUnlink:
      return remove_name(step.call, place);
    case Action::kRename:
      return rename_file(step.call, place.name, place.other_name);
    case Action::kLink:
      return timed([&] { return link(place.name, place.other_name); });
    default:
      return look_up(step.call, place.name);
  }
}

}  // namespace

int OpenHandle::descriptor() const {
  switch (kind) {
    case HandleKind::kStream:
      return fileno(stream_of(*this));
    case HandleKind::kDirectory:
      return dirfd(directory_of(*this));
    default:
      return static_cast<int>(value);
  }
}

Outcome issue(const Step& step, const Place& place, const Buffer& buffer) {
  const Action action = action_of(step.call);
  return uses_handle(action) ? use_open_file(step, action, place, buffer)
                             : use_name(step, action, place);
}

Outcome issue_open(Call call, const Handle& handle, const char* name, OpenHandle& opened) {
  opened.kind = handle.kind;
  const Outcome outcome = timed([&]() -> int64_t {
    if (handle.kind == HandleKind::kStream) return open_stream(call, handle, name);
    if (handle.kind == HandleKind::kDescriptor) return open_descriptor(call, handle, name);
    DIR* directory = opendir(name);
    return directory == nullptr ? -1 : reinterpret_cast<int64_t>(directory);
  });
  opened.value = outcome.result;
  return outcome;
}

Outcome issue_close(Call call, const OpenHandle& handle) {
  if (call == Call::kFclose) return timed([&] { return fclose(stream_of(handle)); });
  if (call == Call::kClosedir) return timed([&] { return closedir(directory_of(handle)); });
  return timed([&] { return close(static_cast<int>(handle.value)); });
}

void close_handle(const OpenHandle& handle) {
  switch (handle.kind) {
    case HandleKind::kStream:
      fclose(stream_of(handle));
      break;
    case HandleKind::kDirectory:
      closedir(directory_of(handle));
      break;
    default:
      close(static_cast<int>(handle.value));
  }
}

}  // namespace millrace::replay
