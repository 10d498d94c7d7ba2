// Mapped files. Anonymous mappings are not I/O and are not recorded.
#include <stdarg.h>
#include <sys/mman.h>

#include "trace/preload/hooks/hooks.h"
#include "trace/preload/mappings.h"

namespace millrace::trace {
namespace {

uint64_t number(const void* address) { return reinterpret_cast<uint64_t>(address); }

// A call on a range of addresses, recorded if a file is mapped there.
template <typename Body>
int on_mapping(Call call, void* address, size_t size, uint32_t detail, Body body) {
  MappedRange mapping;
  if (!recording(Level::kPosix) || !find_mapping(number(address), size, &mapping)) return body();
  const uint64_t skipped =
      number(address) > mapping.begin ? number(address) - mapping.begin : uint64_t{0};
  return traced({.call = call,
                 .file = mapping.file,
                 .offset = mapping.offset + skipped,
                 .size = size,
                 .detail = detail},
                body);
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  static constinit Real<void*(void*, size_t, int, int, int, off_t)> real{"mmap"};
  if ((flags & MAP_ANONYMOUS) != 0 || fd < 0 || !recording(Level::kPosix)) {
    return real(address, size, protection, flags, fd, offset);
  }
  const millrace::hook::Description* description = describe(fd);
  if (ignored(description)) return real(address, size, protection, flags, fd, offset);
  const NameId file = file_of(description);
  const uint64_t begin = now();
  void* mapped = real(address, size, protection, flags, fd, offset);
  const uint64_t end = now();
  const bool failed = mapped == MAP_FAILED;
  const int error = failed ? errno : 0;
  if (!failed && !writer.in_vfork) {
    add_mapping({number(mapped), size, static_cast<uint64_t>(offset), file});
  }
  record({.call = Call::kMmap,
          .file = file,
          .offset = static_cast<uint64_t>(offset),
          .size = size,
          .detail = static_cast<uint32_t>(protection) | static_cast<uint32_t>(flags) << 8},
         {begin, end, failed ? -1 : 0, error});
  return mapped;
}

int munmap(void* address, size_t size) {
  static constinit Real<int(void*, size_t)> real{"munmap"};
  MappedRange mapping;
  if (!recording(Level::kPosix) || !find_mapping(number(address), size, &mapping)) {
    return real(address, size);
  }
  end_mapping(number(address), size);
  return traced(
      {.call = Call::kMunmap, .file = mapping.file, .offset = mapping.offset, .size = size},
      [&] { return real(address, size); });
}

void* mremap(void* address, size_t old_size, size_t new_size, int flags, ...) {
  static constinit Real<void*(void*, size_t, size_t, int, ...)> real{"mremap"};
  va_list arguments;
  va_start(arguments, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  MappedRange mapping;
  if (!recording(Level::kPosix) || !find_mapping(number(address), old_size, &mapping)) {
    return real.get()(address, old_size, new_size, flags, wanted);
  }
  const uint64_t begin = now();
  void* moved = real.get()(address, old_size, new_size, flags, wanted);
  const uint64_t end = now();
  const bool failed = moved == MAP_FAILED;
  const int error = failed ? errno : 0;
  if (!failed) {
    forget_mapping(mapping.begin);
    add_mapping({number(moved), new_size, mapping.offset, mapping.file});
  }
  record({.call = Call::kMremap, .file = mapping.file, .offset = mapping.offset, .size = new_size},
         {begin, end, failed ? -1 : 0, error});
  return moved;
}

int msync(void* address, size_t size, int flags) {
  static constinit Real<int(void*, size_t, int)> real{"msync"};
  return on_mapping(Call::kMsync, address, size, static_cast<uint32_t>(flags),
                    [&] { return real(address, size, flags); });
}

int madvise(void* address, size_t size, int advice) {
  static constinit Real<int(void*, size_t, int)> real{"madvise"};
  return on_mapping(Call::kMadvise, address, size, static_cast<uint32_t>(advice),
                    [&] { return real(address, size, advice); });
}

int posix_madvise(void* address, size_t size, int advice) {
  static constinit Real<int(void*, size_t, int)> real{"posix_madvise"};
  return on_mapping(Call::kMadvise, address, size, static_cast<uint32_t>(advice),
                    [&] { return real(address, size, advice); });
}

}  // extern "C"

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl mmap64
  .set mmap64, mmap
)");
