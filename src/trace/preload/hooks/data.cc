// read, write, their variants, and lseek.
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

// The buffers of readv and its variants.
struct Buffers {
  const iovec* buffers;
  int count;

  uint64_t operator()(ssize_t result) const {
    return size_after(result, buffers, static_cast<size_t>(count));
  }
};

template <typename Body>
ssize_t on_buffers_range(Call call, int fd, off_t offset, Buffers buffers, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  const uint64_t begin = now();
  const ssize_t result = body();
  const uint64_t end = now();
  const int error = result < 0 ? errno : 0;
  record({.call = call,
          .file = file_of(description),
          .offset = static_cast<uint64_t>(offset),
          .size = buffers(result)},
         {begin, end, result, error});
  return result;
}

Range range(off_t offset, size_t size) { return {static_cast<uint64_t>(offset), size}; }

constinit Real<ssize_t(int, void*, size_t)> real_read{"read"};
constinit Real<ssize_t(int, void*, size_t, off_t)> real_pread{"pread"};
constinit Real<ssize_t(int, const void*, size_t)> real_write{"write"};

}  // namespace

void find_data_calls() {
  real_read.get();
  real_pread.get();
  real_write.get();
}

}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

ssize_t read(int fd, void* buffer, size_t size) {
  return at_position(Call::kRead, fd, size, [&] { return real_read(fd, buffer, size); });
}

ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  static constinit Real<ssize_t(int, void*, size_t, size_t)> real{"__read_chk"};
  return at_position(Call::kRead, fd, size, [&] { return real(fd, buffer, size, room); });
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  return on_range(Call::kPread, fd, range(offset, size),
                  [&] { return real_pread(fd, buffer, size, offset); });
}

ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t offset, size_t room) {
  static constinit Real<ssize_t(int, void*, size_t, off_t, size_t)> real{"__pread_chk"};
  return on_range(Call::kPread, fd, range(offset, size),
                  [&] { return real(fd, buffer, size, offset, room); });
}

ssize_t readv(int fd, const iovec* buffers, int count) {
  static constinit Real<ssize_t(int, const iovec*, int)> real{"readv"};
  return at_position_sized(Call::kReadv, fd, Buffers{buffers, count},
                           [&] { return real(fd, buffers, count); });
}

ssize_t preadv(int fd, const iovec* buffers, int count, off_t offset) {
  static constinit Real<ssize_t(int, const iovec*, int, off_t)> real{"preadv"};
  return on_buffers_range(Call::kPreadv, fd, offset, {buffers, count},
                          [&] { return real(fd, buffers, count, offset); });
}

ssize_t preadv2(int fd, const iovec* buffers, int count, off_t offset, int flags) {
  static constinit Real<ssize_t(int, const iovec*, int, off_t, int)> real{"preadv2"};
  const auto body = [&] { return real(fd, buffers, count, offset, flags); };
  if (offset == -1) return at_position_sized(Call::kPreadv2, fd, Buffers{buffers, count}, body);
  return on_buffers_range(Call::kPreadv2, fd, offset, {buffers, count}, body);
}

ssize_t write(int fd, const void* buffer, size_t size) {
  return at_position(Call::kWrite, fd, size, [&] { return real_write(fd, buffer, size); });
}

ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  static constinit Real<ssize_t(int, const void*, size_t, off_t)> real{"pwrite"};
  return on_range(Call::kPwrite, fd, range(offset, size),
                  [&] { return real(fd, buffer, size, offset); });
}

ssize_t writev(int fd, const iovec* buffers, int count) {
  static constinit Real<ssize_t(int, const iovec*, int)> real{"writev"};
  return at_position_sized(Call::kWritev, fd, Buffers{buffers, count},
                           [&] { return real(fd, buffers, count); });
}

ssize_t pwritev(int fd, const iovec* buffers, int count, off_t offset) {
  static constinit Real<ssize_t(int, const iovec*, int, off_t)> real{"pwritev"};
  return on_buffers_range(Call::kPwritev, fd, offset, {buffers, count},
                          [&] { return real(fd, buffers, count, offset); });
}

ssize_t pwritev2(int fd, const iovec* buffers, int count, off_t offset, int flags) {
  static constinit Real<ssize_t(int, const iovec*, int, off_t, int)> real{"pwritev2"};
  const auto body = [&] { return real(fd, buffers, count, offset, flags); };
  if (offset == -1) return at_position_sized(Call::kPwritev2, fd, Buffers{buffers, count}, body);
  return on_buffers_range(Call::kPwritev2, fd, offset, {buffers, count}, body);
}

off_t lseek(int fd, off_t offset, int whence) {
  static constinit Real<off_t(int, off_t, int)> real{"lseek"};
  if (!recording(Level::kPosix)) return real(fd, offset, whence);
  millrace::hook::Description* description = describe(fd);
  const uint64_t begin = now();
  const off_t result = real(fd, offset, whence);
  const uint64_t end = now();
  const int error = result < 0 ? errno : 0;
  const auto place = static_cast<uint64_t>(result);
  if (result >= 0 && description != nullptr && !writer.in_vfork) {
    recorder.descriptors.positioned(*description, place);
  }
  if (ignored(description)) return result;
  record({.call = Call::kLseek,
          .file = file_of(description),
          .offset = result < 0 ? kNoOffset : place,
          .detail = static_cast<uint32_t>(whence)},
         {begin, end, result, error});
  return result;
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
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
  .globl __write
  .set __write, write
  .globl pwrite64
  .set pwrite64, pwrite
  .globl __pwrite64
  .set __pwrite64, pwrite
  .globl pwritev64
  .set pwritev64, pwritev
  .globl pwritev64v2
  .set pwritev64v2, pwritev2
  .globl lseek64
  .set lseek64, lseek
  .globl __lseek
  .set __lseek, lseek
)");
