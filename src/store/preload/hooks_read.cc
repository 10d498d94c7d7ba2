// Reading from a descriptor: a fast one is served here, without a system call.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "store/preload/copy_bytes.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

using State = FastFiles::State;

constexpr size_t kReadMax = 0x7fff'f000;  // of one call, as in the kernel

constinit Real<ssize_t(int, void*, size_t)> real_read{"read"};
constinit Real<ssize_t(int, void*, size_t, off_t)> real_pread{"pread"};
constinit Real<ssize_t(int, const iovec*, int)> real_readv{"readv"};
constinit Real<ssize_t(int, const iovec*, int, off_t)> real_preadv{"preadv"};

// False if it is not a fast descriptor, or if only the kernel can tell what is wrong.
bool read_fast(int fd, void* buffer, size_t count, ssize_t* result) {
  if (is_bad(buffer)) return false;
  FastPiece piece;
  if (!fast_files.take(fd, count < kReadMax ? count : kReadMax, piece)) return false;
  copy_bytes(buffer, piece.bytes, piece.size_bytes);
  *result = static_cast<ssize_t>(piece.size_bytes);
  return true;
}

bool pread_fast(int fd, void* buffer, size_t count, off_t offset, ssize_t* result) {
  FastFile file;
  if (offset < 0 || is_bad(buffer) || fast_files.look(fd, file) != State::kOpen) return false;
  const auto at = static_cast<uint64_t>(offset);
  const uint64_t left = at < file.size_bytes ? file.size_bytes - at : 0;
  if (count > kReadMax) count = kReadMax;
  const size_t size = count < left ? count : static_cast<size_t>(left);
  copy_bytes(buffer, file.bytes + at, size);
  *result = static_cast<ssize_t>(size);
  return true;
}

// The sum of the lengths; -1 if only the kernel can tell what is wrong with them.
ssize_t length_of(const iovec* pieces, int count) {
  if (is_bad(pieces) || count < 0 || count > 1024) return -1;
  size_t sum = 0;
  for (int i = 0; i < count; ++i) {
    if (pieces[i].iov_len > kReadMax || (pieces[i].iov_len > 0 && is_bad(pieces[i].iov_base))) {
      return -1;
    }
    sum += pieces[i].iov_len;
  }
  return sum > kReadMax ? -1 : static_cast<ssize_t>(sum);
}

void scatter(const std::byte* from, size_t size, const iovec* pieces) {
  for (; size > 0; ++pieces) {
    const size_t part = size < pieces->iov_len ? size : pieces->iov_len;
    copy_bytes(pieces->iov_base, from, part);
    from += part;
    size -= part;
  }
}

bool readv_fast(int fd, const iovec* pieces, int count, ssize_t* result) {
  if (fast_files.state(fd) != State::kOpen) return false;
  const ssize_t length = length_of(pieces, count);
  FastPiece piece;
  if (length < 0 || !fast_files.take(fd, static_cast<uint64_t>(length), piece)) return false;
  scatter(piece.bytes, piece.size_bytes, pieces);
  *result = static_cast<ssize_t>(piece.size_bytes);
  return true;
}

bool preadv_fast(int fd, const iovec* pieces, int count, off_t offset, ssize_t* result) {
  FastFile file;
  if (offset < 0 || fast_files.look(fd, file) != State::kOpen) return false;
  const ssize_t length = length_of(pieces, count);
  if (length < 0) return false;
  const auto at = static_cast<uint64_t>(offset);
  const uint64_t left = at < file.size_bytes ? file.size_bytes - at : 0;
  const uint64_t size = static_cast<uint64_t>(length) < left ? static_cast<uint64_t>(length) : left;
  scatter(file.bytes + at, static_cast<size_t>(size), pieces);
  *result = static_cast<ssize_t>(size);
  return true;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

ssize_t read(int fd, void* buffer, size_t count) {
  if (ssize_t result; read_fast(fd, buffer, count, &result)) return result;
  return natively(fd, [&] { return real_read(fd, buffer, count); });
}

ssize_t __read_chk(int fd, void* buffer, size_t count, size_t room) {
  static constinit Real<ssize_t(int, void*, size_t, size_t)> real{"__read_chk"};
  if (ssize_t result; count <= room && read_fast(fd, buffer, count, &result)) return result;
  return natively(fd, [&] { return real(fd, buffer, count, room); });
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (ssize_t result; pread_fast(fd, buffer, count, offset, &result)) return result;
  return natively(fd, [&] { return real_pread(fd, buffer, count, offset); });
}

ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset, size_t room) {
  static constinit Real<ssize_t(int, void*, size_t, off_t, size_t)> real{"__pread_chk"};
  if (ssize_t result; count <= room && pread_fast(fd, buffer, count, offset, &result)) {
    return result;
  }
  return natively(fd, [&] { return real(fd, buffer, count, offset, room); });
}

ssize_t readv(int fd, const iovec* pieces, int count) {
  if (ssize_t result; readv_fast(fd, pieces, count, &result)) return result;
  return natively(fd, [&] { return real_readv(fd, pieces, count); });
}

ssize_t preadv(int fd, const iovec* pieces, int count, off_t offset) {
  if (ssize_t result; preadv_fast(fd, pieces, count, offset, &result)) return result;
  return natively(fd, [&] { return real_preadv(fd, pieces, count, offset); });
}

// Its flags are hints for a file that is in memory, except those that the kernel would refuse.
ssize_t preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  static constinit Real<ssize_t(int, const iovec*, int, off_t, int)> real{"preadv2"};
  if (ssize_t result; flags == 0) {
    if (offset == -1 && readv_fast(fd, pieces, count, &result)) return result;
    if (preadv_fast(fd, pieces, count, offset, &result)) return result;
  }
  return natively(fd, [&] { return real(fd, pieces, count, offset, flags); });
}

off_t lseek(int fd, off_t offset, int whence) {
  static constinit Real<off_t(int, off_t, int)> real{"lseek"};
  if (int64_t result; fast_files.seek(fd, offset, whence, &result) && result != -EOVERFLOW) {
    return result < 0 ? failure<off_t>(static_cast<int>(-result)) : result;
  }
  return natively(fd, [&] { return real(fd, offset, whence); });
}

int isatty(int fd) {
  static constinit Real<int(int)> real{"isatty"};
  const State state = fast_files.state(fd);
  if (state == State::kNone) return real(fd);
  errno = state == State::kOpen ? ENOTTY : EBADF;
  return 0;
}

int ioctl(int fd, unsigned long request, ...) {
  static constinit Real<int(int, unsigned long, ...)> real{"ioctl"};
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool is_for_terminal = request == TCGETS || request == TIOCGWINSZ;
  if (is_for_terminal && fast_files.state(fd) == State::kOpen) return failure<int>(ENOTTY);
  return natively(fd, [&] { return real.get()(fd, request, argument); });
}

// The bytes are in memory.
int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  static constinit Real<int(int, off_t, off_t, int)> real{"posix_fadvise"};
  const bool is_valid = size >= 0 && advice >= POSIX_FADV_NORMAL && advice <= POSIX_FADV_NOREUSE;
  if (is_valid && fast_files.state(fd) == State::kOpen) return 0;
  return real(fd, offset, size, advice);
}

}  // extern "C"

// Other names of the same calls.
asm(R"(
  .globl __read
  .set __read, read
  .globl pread64
  .set pread64, pread
  .globl __pread64
  .set __pread64, pread
  .globl __pread64_chk
  .set __pread64_chk, __pread_chk
  .globl preadv64
  .set preadv64, preadv
  .globl preadv64v2
  .set preadv64v2, preadv2
  .globl lseek64
  .set lseek64, lseek
  .globl __lseek
  .set __lseek, lseek
  .globl posix_fadvise64
  .set posix_fadvise64, posix_fadvise
)");
