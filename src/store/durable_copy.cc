#include "store/durable_copy.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/directory.h"
#include "base/text.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBlockBytes = size_t{4} << 20;

// Calls use(block) for each block of the first `size_bytes` of a file.
template <typename Use>
Status for_each_block(const File& file, uint64_t size_bytes, std::vector<std::byte>& buffer,
                      Use use) {
  for (uint64_t at = 0; at < size_bytes;) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), size_bytes - at));
    const std::span block(buffer.data(), wanted);
    RETURN_IF_ERROR(file.read_exactly_at(at, block));
    RETURN_IF_ERROR(use(at, ByteView(block)));
    at += wanted;
  }
  return {};
}

Status check_copy(const File& copy, const struct stat& status, uint32_t expected,
                  std::vector<std::byte>& buffer) {
  ASSIGN_OR_RETURN(const uint64_t size_bytes, copy.size_bytes());
  const auto wanted = static_cast<uint64_t>(status.st_size);
  if (size_bytes != wanted) {
    return fail(Errc::kIo, "the copy has {} bytes, but must have {}", size_bytes, wanted);
  }
  // From the file server, not from our memory, if it can be.
  ::posix_fadvise(copy.fd(), 0, 0, POSIX_FADV_DONTNEED);
  uint32_t checksum = 0;
  RETURN_IF_ERROR(for_each_block(copy, wanted, buffer, [&](uint64_t, ByteView block) -> Status {
    checksum = crc32c(block, checksum);
    return {};
  }));
  if (checksum == expected) return {};
  return fail(Errc::kIo, "the checksum of the copy is {:08x}, but must be {:08x}", checksum,
              expected);
}

}  // namespace

std::string random_token() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return fmt::format("{:016x}", number);
}

fs::path temporary_name(const fs::path& target, const std::string& token) {
  return target.parent_path() / fmt::format(".millrace-{}.part", token);
}

Result<DurableCopy> DurableCopy::of_file(const File& source, Options options) {
  DurableCopy copy(temporary_name(options.target, options.token), options.target);
  const std::string shown = printable(copy.temporary_.string());
  ASSIGN_OR_RETURN(File file,
                   File::open(copy.temporary_, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  const auto size_bytes = static_cast<uint64_t>(options.status.st_size);
  std::vector<std::byte> buffer(std::clamp<uint64_t>(size_bytes, 1, uint64_t{kCopyBlockBytes}));
  uint32_t checksum = 0;
  RETURN_IF_ERROR(
      for_each_block(source, size_bytes, buffer, [&](uint64_t at, ByteView block) -> Status {
        checksum = crc32c(block, checksum);
        RETURN_IF_ERROR(file.write_at(at, block).within(shown));
        if (options.on_block) options.on_block();
        return {};
      }));
  if (::fchmod(file.fd(), options.status.st_mode & 07777) != 0) {
    return fail_os(errno, "cannot set its mode").within(shown);
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, options.status.st_mtim};
  if (::futimens(file.fd(), times) != 0) {
    return fail_os(errno, "cannot set its time").within(shown);
  }
  if (::fsync(file.fd()) != 0) return fail_os(errno, "cannot sync it").within(shown);
  RETURN_IF_ERROR(check_copy(file, options.status, checksum, buffer).within(shown));
  RETURN_IF_ERROR(file.close().within(shown));
  return copy;
}

Result<DurableCopy> DurableCopy::of_link(const std::string& link_target, Options options) {
  DurableCopy copy(temporary_name(options.target, options.token), options.target);
  ::unlink(copy.temporary_.c_str());
  if (::symlink(link_target.c_str(), copy.temporary_.c_str()) != 0) {
    return fail_os(errno, "cannot create the link").within(printable(copy.temporary_.string()));
  }
  return copy;
}

DurableCopy::DurableCopy(DurableCopy&& other) noexcept
    : temporary_(std::exchange(other.temporary_, {})), target_(std::move(other.target_)) {}

DurableCopy::~DurableCopy() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status DurableCopy::commit() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return fail_os(errno, "cannot rename the copy").within(printable(target_.string()));
  }
  temporary_.clear();
  return sync_directory(target_.parent_path());
}

}  // namespace millrace::store
