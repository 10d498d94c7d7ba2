#include "hook/program_memory.h"

#include <sys/uio.h>

#include <cstring>

#include "hook/syscall.h"

namespace millrace::hook {
namespace {

// The smallest page size.
constexpr size_t kPageBytes = 4096;
constexpr size_t kStringsAtOnce = 16;

// Returns the number of bytes, or minus an errno value.
long read_memory(const iovec& to, const iovec* from, size_t count) {
  return own_call(SYS_process_vm_readv, sys_getpid(), word(&to), 1, word(from),
                  static_cast<long>(count), 0);
}

// How many bytes can be read without touching the next page, which may not be mapped.
size_t bytes_to_page_end(const void* address) {
  return kPageBytes - reinterpret_cast<uintptr_t>(address) % kPageBytes;
}

}  // namespace

long copy_text(const char* from, char* to, size_t room) {
  if (from == nullptr) return -1;
  size_t length = 0;
  while (length < room) {
    const size_t left = room - length;
    const size_t wanted =
        bytes_to_page_end(from + length) < left ? bytes_to_page_end(from + length) : left;
    const iovec source{const_cast<char*>(from + length), wanted};
    if (read_memory({to + length, wanted}, &source, 1) != static_cast<long>(wanted)) return -1;
    const void* end = std::memchr(to + length, '\0', wanted);
    if (end != nullptr) return static_cast<const char*>(end) - to;
    length += wanted;
  }
  return static_cast<long>(length);
}

bool can_read_strings(char* const* list) {
  if (list == nullptr) return true;
  while (true) {
    char* strings[kStringsAtOnce];
    size_t count = bytes_to_page_end(list) / sizeof(char*);
    count = count < 1 ? 1 : count < kStringsAtOnce ? count : kStringsAtOnce;
    const iovec source{const_cast<char**>(list), count * sizeof(char*)};
    if (read_memory({strings, source.iov_len}, &source, 1) != static_cast<long>(source.iov_len)) {
      return false;
    }
    iovec firsts[kStringsAtOnce];
    size_t used = 0;
    while (used < count && strings[used] != nullptr) {
      firsts[used] = {strings[used], 1};
      ++used;
    }
    char bytes[kStringsAtOnce];
    if (used > 0 && read_memory({bytes, used}, firsts, used) != static_cast<long>(used)) {
      return false;
    }
    if (used < count) return true;
    list += count;
  }
}

}  // namespace millrace::hook
