#include "store/buffer/durable_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/hash/crc32c.h"
#include "base/io/directory.h"
#include "base/text/text.h"
#include "store/pack/sparse_writer.h"
#include "wire/store_buffer.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{4} << 20;

Result<uint32_t> checksum_of(const File& file, uint64_t size_bytes) {
  uint32_t checksum = 0;
  RETURN_IF_ERROR(
      for_blocks(file, size_bytes, kBlockBytes, [&](uint64_t, ByteView block) -> Status {
        checksum = crc32c(block, checksum);
        return {};
      }));
  return checksum;
}

// Not `top` itself: if it is missing, the file system may not be mounted.
Status make_directories_below(const fs::path& top, const fs::path& directory) {
  fs::path made = top;
  for (const fs::path& part : directory.lexically_relative(top)) {
    const fs::path parent = made;
    made /= part;
    if (::mkdir(made.c_str(), 0777) == 0) {
      RETURN_IF_ERROR(sync_directory(parent));
    } else if (errno != EEXIST) {
      return fail_os(errno, "cannot create it").within(printable(made.string()));
    }
  }
  return {};
}

struct Temporary {
  fs::path path;  // empty: it has its final name
  File file;

  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

// Never opens or announces what exists: it would not be ours.
Status create_temporary(const DurableTarget& target, Temporary& made) {
  uint64_t token = target.token;
  for (bool has_parents = false;;) {
    while (token == 0 && ::getrandom(&token, sizeof(token), 0) != sizeof(token)) {
    }
    const fs::path path = temporary_copy(target.path, token);
    struct stat info;
    int error = ::lstat(path.c_str(), &info) == 0 ? EEXIST : errno;
    if (error == ENOENT) {
      if (target.on_token) target.on_token(token);
      made.file =
          File(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      error = errno;
    }
    if (made.file.is_open()) {
      made.path = path;
      return {};
    }
    if (error == EEXIST) {
      token = 0;
    } else if (error == ENOENT && !has_parents) {
      RETURN_IF_ERROR(make_directories_below(target.top, target.path.parent_path()));
      has_parents = true;
    } else {
      return fail_os(error, "cannot create a copy").within(printable(target.path.string()));
    }
  }
}

Status check_copy(const File& copy, uint64_t size_bytes, uint32_t expected) {
  ASSIGN_OR_RETURN(const uint64_t copied_bytes, copy.size_bytes());
  if (copied_bytes != size_bytes) {
    return fail(Errc::kIo, "the copy has {} bytes, but must have {}", copied_bytes, size_bytes);
  }
  // From the file server, not from our memory, if it can be.
  ::posix_fadvise(copy.fd(), 0, 0, POSIX_FADV_DONTNEED);
  ASSIGN_OR_RETURN(const uint32_t checksum, checksum_of(copy, size_bytes));
  if (checksum == expected) return {};
  return fail(Errc::kIo, "the checksum of the copy is {:08x}, but must be {:08x}", checksum,
              expected);
}

Status write_copy(const File& source, const DurableTarget& target, const File& copy) {
  struct stat status;
  if (::fstat(source.fd(), &status) != 0) return fail_os(errno, "cannot read its attributes");
  const auto size_bytes = static_cast<uint64_t>(status.st_size);
  uint32_t checksum = 0;
  SparseWriter writer(copy);  // a file with holes takes no more room there than here
  RETURN_IF_ERROR(
      for_blocks(source, size_bytes, kBlockBytes, [&](uint64_t, ByteView block) -> Status {
        checksum = crc32c(block, checksum);
        if (target.on_block) target.on_block();
        return writer.add(block);
      }));
  RETURN_IF_ERROR(writer.finish());
  // Only root can give files away. After that, set-user-ID bits may be set.
  const bool has_owner = status.st_uid == ::geteuid() && status.st_gid == ::getegid();
  if (!has_owner && ::fchown(copy.fd(), status.st_uid, status.st_gid) != 0) {
    return fail_os(errno, "cannot set its owner");
  }
  if (::fchmod(copy.fd(), status.st_mode & 07777) != 0) {
    return fail_os(errno, "cannot set its mode");
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, status.st_mtim};
  if (::futimens(copy.fd(), times) != 0) return fail_os(errno, "cannot set its time");
  if (::fsync(copy.fd()) != 0) return fail_os(errno, "cannot sync it");
  return check_copy(copy, size_bytes, checksum);
}

}  // namespace

bool has_same_content(const fs::path& path, const fs::path& other) {
  const auto first = File::open(path, O_RDONLY | O_NOFOLLOW);
  const auto second = File::open(other, O_RDONLY | O_NOFOLLOW);
  if (!first.ok() || !second.ok()) return false;
  const auto size_bytes = first->size_bytes();
  const auto other_bytes = second->size_bytes();
  if (!size_bytes.ok() || !other_bytes.ok() || *size_bytes != *other_bytes) return false;
  const auto wanted = checksum_of(*first, *size_bytes);
  const auto found = checksum_of(*second, *size_bytes);
  return wanted.ok() && found.ok() && *wanted == *found;
}

fs::path temporary_copy(const fs::path& target, uint64_t token) {
  return target.parent_path() /
         fmt::format("{}{:016x}{}", wire::kBufferCopyPrefix, token, wire::kBufferCopyEnd);
}

Status copy_durably(const File& source, const DurableTarget& target) {
  Temporary made;
  RETURN_IF_ERROR(create_temporary(target, made));
  // Not the temporary name: it is another one at each try.
  const std::string shown = printable(target.path.string());
  RETURN_IF_ERROR(write_copy(source, target, made.file).within(shown));
  RETURN_IF_ERROR(made.file.close().within(shown));
  if (target.check_last) RETURN_IF_ERROR(target.check_last().within(shown));
  if (::rename(made.path.c_str(), target.path.c_str()) != 0) {
    return fail_os(errno, "cannot rename the copy").within(shown);
  }
  made.path.clear();
  return sync_directory(target.path.parent_path());
}

}  // namespace millrace::store
