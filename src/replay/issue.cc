#include "replay/issue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

namespace millrace::replay {
namespace {

using wire::Call;

constexpr size_t kMappedPiece = size_t{128} << 10;
constexpr uint64_t kPopulatedPiece = uint64_t{1} << 30;

FILE* stream_of(const OpenHandle& handle) { return reinterpret_cast<FILE*>(handle.value); }
DIR* directory_of(const OpenHandle& handle) { return reinterpret_cast<DIR*>(handle.value); }

// "r+" for the flags of open(2).
const char* stream_mode(uint32_t flags) {
  const bool both = (flags & O_ACCMODE) == O_RDWR;
  if ((flags & O_APPEND) != 0) return both ? "a+" : "a";
  if ((flags & O_TRUNC) != 0) return both ? "w+" : "w";
  return both || (flags & O_ACCMODE) == O_WRONLY ? "r+" : "r";
}

// The descriptor as a stream or directory; null if that fails. fdopen() needs a mode that the
// descriptor has: a file that was there before the replay is open for reading only.
void* wrap(const Handle& handle, int fd) {
  if (handle.kind == HandleKind::kDirectory) return fdopendir(fd);
  const int access = fcntl(fd, F_GETFL) & O_ACCMODE;
  return fdopen(fd, access == O_RDONLY ? "r" : stream_mode(handle.flags));
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

// A write moves what it moved in the job, not what it was asked to, so that the space which is
// needed is known before.
size_t size_to_move(const Step& step, Action action, const Buffer& buffer) {
  const uint64_t size =
      writes(action) ? std::min(step.size_bytes(), step.result_bytes()) : step.size_bytes();
  return std::min<uint64_t>(size, buffer.size_bytes());
}

Outcome move_bytes(const Step& step, Action action, const Place& place, const Buffer& buffer) {
  const int fd = place.file.descriptor();
  const bool is_write = writes(action);
  const size_t size = std::min(size_to_move(step, action, buffer), kMovedMax);
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
  const size_t size = size_to_move(step, action, buffer);
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

// In pieces, so that Ctrl-C does not wait for terabytes that a trace may claim.
int64_t populate_all(const Step& step, const Place& place, const Buffer& buffer) {
  const uint64_t length = step.result_bytes();
  uint64_t at = 0;
  while (at < length && (place.stop == nullptr || !*place.stop)) {
    const uint64_t piece = std::min(length - at, kPopulatedPiece);
    const int64_t count =
        populate(place.file.descriptor(), add_saturating(step.offset, at), piece, buffer);
    if (count < 0) return count;
    at += static_cast<uint64_t>(count);
    if (static_cast<uint64_t>(count) < piece) break;
  }
  return static_cast<int64_t>(at);
}

Outcome transfer_bytes(const Step& step, const Place& place) {
  const int from = place.file.descriptor();
  const int to = place.other_file.descriptor();
  const size_t size = std::min(step.result_bytes(), kMovedMax);
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
      return timed([&] { return populate_all(step, place, buffer); });
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

int look_up(Call call, int directory, const char* last) {
  struct stat status{};
  struct statx extended{};
  switch (call) {
    case Call::kStatx:
      return statx(directory, last, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &extended);
    case Call::kAccess:
    case Call::kFaccessat:
      return faccessat(directory, last, F_OK, 0);
    default:
      return fstatat(directory, last, &status, AT_SYMLINK_NOFOLLOW);
  }
}

// As scandir(), which takes a path.
Outcome scan_directory(std::string_view name, Folder& folder) {
  Outcome outcome = folder.open_file(name, O_RDONLY | O_DIRECTORY);
  if (outcome.result < 0) return outcome;
  const int fd = static_cast<int>(outcome.result);
  const Outcome listed = timed([&]() -> int64_t {
    DIR* const directory = fdopendir(fd);
    if (directory == nullptr) return -1;
    int64_t count = 0;
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    return count;
  });
  outcome.result = listed.result;
  outcome.error = listed.error;
  outcome.end_ns += listed.end_ns - listed.begin_ns;
  return outcome;
}

Outcome use_name(const Step& step, Action action, const Place& place, Folder& folder) {
  switch (action) {
    case Action::kTruncateName:
      return folder.truncate(place.name, step.offset);
    case Action::kScanDirectory:
      return scan_directory(place.name, folder);
    case Action::kMakeDirectory:
      return folder.make_directory(place.name);
    case Action::kRemoveDirectory:
      return folder.remove(place.name, true);
    case Action::kUnlink:
      return folder.remove(place.name, step.call != Call::kUnlink && place.is_directory);
    case Action::kRename:
      return folder.rename(place.name, place.other_name);
    case Action::kLink:
      return folder.link(place.name, place.other_name);
    default:
      break;
  }
  const uint64_t begin = now_ns();
  const Folder::Name name = folder.find(place.name);
  if (name.error != 0) {
    return {.result = -1, .error = name.error, .begin_ns = begin, .end_ns = now_ns()};
  }
  return timed([&] { return look_up(step.call, name.fd(), name.last.c_str()); });
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

Outcome issue(const Step& step, const Place& place, const Buffer& buffer, Folder& folder) {
  const Action action = action_of(step.call);
  return uses_handle(action) ? use_open_file(step, action, place, buffer)
                             : use_name(step, action, place, folder);
}

Outcome issue_open(const Handle& handle, std::string_view name, Folder& folder,
                   OpenHandle& opened) {
  opened.kind = handle.kind;
  uint32_t flags = handle.flags;
  // "r+" is for both.
  if (handle.kind == HandleKind::kStream && stream_mode(flags) == std::string_view("r+")) {
    flags = (flags & ~uint32_t{O_ACCMODE}) | O_RDWR;
  }
  Outcome outcome = folder.open_file(name, flags);
  opened.value = outcome.result;
  if (outcome.result < 0 || handle.kind == HandleKind::kDescriptor) return outcome;
  const int fd = static_cast<int>(outcome.result);
  const Outcome wrapped = timed([&] {
    const void* const pointer = wrap(handle, fd);
    return pointer == nullptr ? -1 : reinterpret_cast<int64_t>(pointer);
  });
  if (wrapped.result < 0) close(fd);
  opened.value = outcome.result = wrapped.result;
  outcome.error = wrapped.error;
  outcome.end_ns += wrapped.end_ns - wrapped.begin_ns;
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
