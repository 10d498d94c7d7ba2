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

// False if it is not a fast descriptor, or if only the kernel can tell what is wrong.
bool read_fast(int fd, void* buffer, size_t count, ssize_t* result) {
  if (is_bad(buffer)) return false;
  FastPiece piece;
  if (!fast_files.take(fd, count < kReadMax ? count : kReadMax, piece)) return false;
  copy_bytes(buffer, piece.bytes, piece.size_bytes);
  *result = static_cast<ssize_t>(piece.size_bytes);
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

bool pread_fast(int fd, void* buffer, size_t count, off_t offset, ssize_t* result) {
  const iovec piece = {.iov_base = buffer, .iov_len = count < kReadMax ? count : kReadMax};
  return preadv_fast(fd, &piece, 1, offset, result);
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

ssize_t read(int fd, void* buffer, size_t count) {
  if (ssize_t result; read_fast(fd, buffer, count, &result)) return result;
  return on_real<read>(fd, buffer, count);
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (ssize_t result; pread_fast(fd, buffer, count, offset, &result)) return result;
  return on_real<pread>(fd, buffer, count, offset);
}

// Those of the C library end the program if its buffer is too small.
ssize_t __read_chk(int fd, void* buffer, size_t count, size_t room) {
  if (count > room) return real_call<__read_chk>(fd, buffer, count, room);
  return read(fd, buffer, count);
}

ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset, size_t room) {
  if (count > room) return real_call<__pread_chk>(fd, buffer, count, offset, room);
  return pread(fd, buffer, count, offset);
}

ssize_t readv(int fd, const iovec* pieces, int count) {
  if (ssize_t result; readv_fast(fd, pieces, count, &result)) return result;
  return on_real<readv>(fd, pieces, count);
}

ssize_t preadv(int fd, const iovec* pieces, int count, off_t offset) {
  if (ssize_t result; preadv_fast(fd, pieces, count, offset, &result)) return result;
  return on_real<preadv>(fd, pieces, count, offset);
}

// Its flags are hints for a file that is in memory, except those that the kernel would refuse.
ssize_t preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (ssize_t result; flags == 0) {
    if (offset == -1 && readv_fast(fd, pieces, count, &result)) return result;
    if (preadv_fast(fd, pieces, count, offset, &result)) return result;
  }
  return natively(fd, [&] { return real_call<preadv2>(fd, pieces, count, offset, flags); });
}

off_t lseek(int fd, off_t offset, int whence) {
  if (int64_t result; fast_files.seek(fd, offset, whence, &result) && result != -EOVERFLOW) {
    return result < 0 ? failure<off_t>(static_cast<int>(-result)) : result;
  }
  return natively(fd, [&] { return real_call<lseek>(fd, offset, whence); });
}

int isatty(int fd) {
  const State state = fast_files.state(fd);
  if (state == State::kNone) return real_call<isatty>(fd);
  errno = state == State::kOpen ? ENOTTY : EBADF;
  return 0;
}

int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool is_for_terminal = request == TCGETS || request == TIOCGWINSZ;
  if (is_for_terminal && fast_files.state(fd) == State::kOpen) return failure<int>(ENOTTY);
  return natively(fd, [&] { return real_call<ioctl>(fd, request, argument); });
}

// The bytes are in memory.
int posix_fadvise(int fd, off_t offset, off_t size, int advice) {
  const bool is_valid = size >= 0 && advice >= POSIX_FADV_NORMAL && advice <= POSIX_FADV_NOREUSE;
  if (is_valid && fast_files.state(fd) == State::kOpen) return 0;
  return real_call<posix_fadvise>(fd, offset, size, advice);
}

}  // extern "C"

asm("names_64 pread, preadv, lseek, posix_fadvise");
asm(R"(
  also __read, read
  also __pread64, pread
  also __pread64_chk, __pread_chk
  also preadv64v2, preadv2
  also __lseek, lseek
)");
