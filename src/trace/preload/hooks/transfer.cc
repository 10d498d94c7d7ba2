// Calls that move bytes from one file to another: `file` is read, the other file is written.
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {
namespace {

// One side of a transfer: a descriptor, and a pointer to its offset; null: the file's position.
struct Side {
  int fd;
  const off_t* offset;
};

// After the call: where a side began. The program's offset is read only if the kernel has accepted
// it; it has then moved.
uint64_t begin_of(const Side& side, hook::Description* description, ssize_t moved) {
  if (side.offset != nullptr) {
    return moved < 0 ? kNoOffset : static_cast<uint64_t>(*side.offset - moved);
  }
  if (description == nullptr) return kNoOffset;
  return recorder.descriptors.moved_from(*description, side.fd,
                                         moved > 0 ? static_cast<uint64_t>(moved) : 0);
}

template <typename Body>
ssize_t transferring(Call call, Side from, Side to, size_t size, Body body) {
  if (!recording(Level::kPosix)) return body();
  hook::Description* source = describe(from.fd);
  hook::Description* target = describe(to.fd);
  if (ignored(source) && ignored(target)) return body();
  const uint64_t begin = now();
  const ssize_t moved = body();
  const uint64_t end = now();
  const int error = moved < 0 ? errno : 0;
  record({.call = call,
          .file = file_of(source),
          .offset = begin_of(from, source, moved),
          .size = size,
          .other_file = file_of(target),
          .other_offset = begin_of(to, target, moved)},
         {begin, end, moved, error});
  return moved;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  static constinit Real<ssize_t(int, int, off_t*, size_t)> real{"sendfile"};
  return transferring(Call::kSendfile, {from, offset}, {to, nullptr}, size,
                      [&] { return real(to, from, offset, size); });
}

ssize_t copy_file_range(int from, off_t* from_offset, int to, off_t* to_offset, size_t size,
                        unsigned flags) {
  static constinit Real<ssize_t(int, off_t*, int, off_t*, size_t, unsigned)> real{
      "copy_file_range"};
  return transferring(Call::kCopyFileRange, {from, from_offset}, {to, to_offset}, size,
                      [&] { return real(from, from_offset, to, to_offset, size, flags); });
}

ssize_t splice(int from, off_t* from_offset, int to, off_t* to_offset, size_t size,
               unsigned flags) {
  static constinit Real<ssize_t(int, off_t*, int, off_t*, size_t, unsigned)> real{"splice"};
  return transferring(Call::kSplice, {from, from_offset}, {to, to_offset}, size,
                      [&] { return real(from, from_offset, to, to_offset, size, flags); });
}

ssize_t tee(int from, int to, size_t size, unsigned flags) {
  static constinit Real<ssize_t(int, int, size_t, unsigned)> real{"tee"};
  return transferring(Call::kTee, {from, nullptr}, {to, nullptr}, size,
                      [&] { return real(from, to, size, flags); });
}

ssize_t vmsplice(int fd, const iovec* buffers, size_t count, unsigned flags) {
  static constinit Real<ssize_t(int, const iovec*, size_t, unsigned)> real{"vmsplice"};
  return at_position_sized(
      Call::kVmsplice, fd, [&](ssize_t result) { return size_after(result, buffers, count); },
      [&] { return real(fd, buffers, count, flags); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl sendfile64
  .set sendfile64, sendfile
)");
