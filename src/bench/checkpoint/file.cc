#include "bench/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/io/file.h"
#include "base/system/memory.h"
#include "bench/samples/page_cache.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kOwnerOnly = 0600;
constexpr uint64_t kBufferBytesMax = uint64_t{1} << 30;

uint64_t whole_blocks(uint64_t size_bytes) {
  return (size_bytes + io::kBlockBytes - 1) / io::kBlockBytes * io::kBlockBytes;
}

Result<File> open_shard(const fs::path& path, int flags, bool is_direct) {
  auto file = File::open(path, flags | (is_direct ? O_DIRECT : 0), kOwnerOnly);
  if (file.ok() || !is_direct || file.error().code() != Errc::kInvalidArgument) return file;
  return fail(Errc::kUnsupported,
              "{}: the file system does not support direct I/O (O_DIRECT); set "
              "checkpoint.odirect=false, or use another checkpoint_folder",
              path.native());
}

// One pread; with O_DIRECT, a second one after a short read would not be aligned.
Result<size_t> read_once(int fd, uint64_t offset_bytes, MutableByteView out) {
  for (;;) {
    const ssize_t got = pread(fd, out.data(), out.size(), static_cast<off_t>(offset_bytes));
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    return fail_os(errno, fmt::format("cannot read {} bytes at byte {}", out.size(), offset_bytes));
  }
}

Status write_all(int fd, uint64_t offset_bytes, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      return fail_os(errno,
                     fmt::format("cannot write {} bytes at byte {}", bytes.size(), offset_bytes));
    }
    offset_bytes += static_cast<uint64_t>(put);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

bool is_one_device(int a, int b) {
  struct stat first{};
  struct stat second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev;
}

}  // namespace

ShardTransfer::ShardTransfer(const TransferOptions& options) : options_(options) {
  const uint64_t bounded =
      std::clamp<uint64_t>(options.buffer_bytes, io::kBlockBytes, kBufferBytesMax);
  buffer_ = memory_.room(static_cast<size_t>(whole_blocks(bounded)));
}

TransferCounts ShardTransfer::take_counts() { return std::exchange(counts_, {}); }

Status ShardTransfer::check_cancelled() const {
  if (!is_cancelled_.load(std::memory_order_relaxed)) return {};
  return fail(Errc::kCancelled, "the checkpoint was abandoned");
}

Status ShardTransfer::write(const fs::path& path, const ShardBytes& bytes, Fsync fsync) {
  const auto source = [&](uint64_t offset_bytes, MutableByteView out) {
    bytes.fill(offset_bytes, out);
    return Status();
  };
  return write_from(path, bytes.size_bytes(), source, fsync);
}

Status ShardTransfer::write_from(const fs::path& path, uint64_t size_bytes, const Source& source,
                                 Fsync fsync) {
  ASSIGN_OR_RETURN(File file, open_shard(path, O_WRONLY | O_CREAT | O_EXCL, options_.odirect));
  return write_to(std::move(file), path, size_bytes, source, fsync);
}

Status ShardTransfer::write_to(File file, const fs::path& path, uint64_t size_bytes,
                               const Source& source, Fsync fsync) {
  Status status = write_open(file.fd(), size_bytes, source);
  if (status.ok()) status = finish_file(file.fd(), fsync);
  if (status.ok()) status = file.close();
  if (!status.ok()) {
    unlink(path.c_str());
    return std::move(status).within(path.native());
  }
  ++counts_.file_count;
  return {};
}

Status ShardTransfer::write_open(int fd, uint64_t size_bytes, const Source& source) {
  for (uint64_t at = 0; at < size_bytes;) {
    RETURN_IF_ERROR(check_cancelled());
    const auto now = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), size_bytes - at));
    RETURN_IF_ERROR(source(at, buffer_.first(now)));
    // A direct write has whole blocks; what is too much at the end is cut off.
    const size_t put = options_.odirect ? static_cast<size_t>(whole_blocks(now)) : now;
    if (put > now) std::memset(buffer_.data() + now, 0, put - now);
    RETURN_IF_ERROR(write_all(fd, at, buffer_.first(put)));
    if (put > now && ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) {
      return fail_os(errno, fmt::format("cannot cut it to {} bytes", size_bytes));
    }
    at += now;
    counts_.size_bytes += now;
  }
  return {};
}

Status ShardTransfer::finish_file(int fd, Fsync wanted) {
  if (wanted == Fsync::kNo) return {};
  ++counts_.fsync_count;
  if (::fsync(fd) != 0) return fail_os(errno, "cannot sync it");
  return {};
}

Status ShardTransfer::read(const fs::path& path, const ShardBytes& bytes) {
  auto opened = open_shard(path, O_RDONLY, options_.odirect);
  if (!opened.ok() && opened.error().code() == Errc::kNotFound) {
    return fail(Errc::kNotFound,
                "{}: is missing: the checkpoint was written by another number of ranks, or for "
                "another model",
                path.native());
  }
  ASSIGN_OR_RETURN(const File file, std::move(opened));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes().within(path.native()));
  const uint64_t expected = bytes.size_bytes();
  if (size_bytes < expected || (options_.verifies && size_bytes != expected)) {
    return fail(Errc::kCorrupt,
                "{}: has {} bytes instead of {}: it was {}, or written for another model; remove "
                "this checkpoint and load an older one",
                path.native(), size_bytes, expected,
                size_bytes < expected ? "truncated" : "changed");
  }
  if (options_.drops_cache) {
    // Dirty pages cannot be dropped.
    fdatasync(file.fd());
    posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  }
  if (!options_.odirect) {
    const uint64_t resident = residence_of(file.fd(), size_bytes).resident_pages;
    counts_.cached_bytes += std::min(resident * page_bytes(), size_bytes);
  }
  RETURN_IF_ERROR(read_open(file.fd(), size_bytes, bytes).within(path.native()));
  ++counts_.file_count;
  return {};
}

Status ShardTransfer::read_open(int fd, uint64_t size_bytes, const ShardBytes& bytes) {
  for (uint64_t at = 0; at < size_bytes;) {
    RETURN_IF_ERROR(check_cancelled());
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), size_bytes - at));
    const size_t asked = options_.odirect ? static_cast<size_t>(whole_blocks(wanted)) : wanted;
    ASSIGN_OR_RETURN(size_t got, read_once(fd, at, buffer_.first(asked)));
    if (got == 0 || (options_.odirect && got < wanted && got % io::kBlockBytes != 0)) {
      return fail(Errc::kCorrupt, "ends at byte {} instead of {}: it was truncated meanwhile",
                  at + got, size_bytes);
    }
    got = std::min(got, wanted);
    if (options_.verifies) RETURN_IF_ERROR(compare(bytes, at, buffer_.first(got)));
    at += got;
    counts_.size_bytes += got;
  }
  return {};
}

Status ShardTransfer::compare(const ShardBytes& bytes, uint64_t offset_bytes, ByteView found) {
  const size_t same = bytes.find_difference(offset_bytes, found);
  if (same == found.size()) return {};
  const uint64_t at = offset_bytes + same;
  return fail(Errc::kCorrupt,
              "byte {} ({}) is {:#04x} instead of {:#04x}: it is corrupt, or was not written by "
              "this workload; load an older checkpoint, or set checkpoint.verify=false",
              at, bytes.describe(at), std::to_integer<unsigned>(found[same]),
              std::to_integer<unsigned>(bytes.at(at)));
}

Status ShardTransfer::copy(const fs::path& from, const fs::path& to, Fsync fsync) {
  ASSIGN_OR_RETURN(const File source, File::open(from, O_RDONLY));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, source.size_bytes().within(from.native()));
  const auto from_source = [&](uint64_t offset_bytes, MutableByteView out) {
    return source.read_exactly_at(offset_bytes, out).within(from.native());
  };
  if (options_.odirect) return write_from(to, size_bytes, from_source, fsync);
  uint64_t done_bytes = 0;
  ASSIGN_OR_RETURN(File target, open_shard(to, O_WRONLY | O_CREAT | O_EXCL, false));
  Status status = copy_in_kernel(source.fd(), target.fd(), size_bytes, done_bytes);
  if (status.ok() && (done_bytes < size_bytes || size_bytes == 0)) {
    return write_to(std::move(target), to, size_bytes, from_source, fsync);
  }
  if (status.ok()) status = finish_file(target.fd(), fsync);
  if (status.ok()) status = target.close();
  if (!status.ok()) {
    unlink(to.c_str());
    return std::move(status).within(to.native());
  }
  counts_.size_bytes += size_bytes;
  ++counts_.file_count;
  return {};
}

// Leaves `done_bytes` at 0 if the kernel cannot copy between these two.
Status ShardTransfer::copy_in_kernel(int from, int to, uint64_t size_bytes, uint64_t& done_bytes) {
  constexpr uint64_t kPieceBytes = uint64_t{64} << 20;  // so that it can be cancelled
  if (is_one_device(from, to)) return {};
  while (done_bytes < size_bytes) {
    RETURN_IF_ERROR(check_cancelled());
    const auto now = static_cast<size_t>(std::min(kPieceBytes, size_bytes - done_bytes));
    const ssize_t copied = copy_file_range(from, nullptr, to, nullptr, now, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0 && done_bytes == 0 && errno != ENOSPC && errno != EDQUOT && errno != EIO) {
      return {};
    }
    if (copied < 0) return fail_os(errno, fmt::format("cannot copy to byte {}", done_bytes));
    if (copied == 0) return {};  // some file systems copy nothing; the caller reads and writes
    done_bytes += static_cast<uint64_t>(copied);
  }
  return {};
}

}  // namespace millrace::bench
