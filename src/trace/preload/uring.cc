#include "trace/preload/uring.h"

#include <dirent.h>

#include <atomic>
#include <string_view>

#include "hook/syscall.h"
#include "trace/preload/hooks/hooks.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// One bit per descriptor. Rings with higher numbers count as new each time.
constexpr unsigned kDescriptors = 65536;
constinit std::atomic<uint64_t> seen[kDescriptors / 64] = {};

bool was_seen(unsigned fd) {
  return fd < kDescriptors && (seen[fd / 64].load(std::memory_order_relaxed) >> fd % 64 & 1) != 0;
}

void set_seen(unsigned fd, bool value) {
  if (fd >= kDescriptors || was_seen(fd) == value) return;  // avoids copying the page for nothing
  const uint64_t bit = uint64_t{1} << fd % 64;
  if (value) {
    seen[fd / 64].fetch_or(bit, std::memory_order_relaxed);
  } else {
    seen[fd / 64].fetch_and(~bit, std::memory_order_relaxed);
  }
}

bool is_ring(unsigned fd) {
  char link[32];
  Text(link).add("/proc/self/fd/").add(uint64_t{fd});
  char target[64];
  const long size = hook::sys_readlink(link, target, sizeof(target));
  return size > 0 &&
         std::string_view(target, static_cast<size_t>(size)).starts_with("anon_inode:[io_uring]");
}

// A descriptor whose opening was seen is not a ring: no hooked call opens rings.
bool may_be_ring(unsigned fd) {
  const hook::Description* known = recorder.descriptors.find(static_cast<int>(fd));
  return known == nullptr || recorder.names.text(file_of(known)) == "<io_uring>";
}

template <typename Visit>
void for_each_descriptor(Visit visit) {
  const hook::SignalsBlocked blocked;  // no signal handler may run while our descriptor is open
  const int directory = hook::sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
  if (directory < 0) {
    // No descriptor is free to list the directory with: try the likely numbers.
    for (unsigned fd = 0; fd < 1024; ++fd) visit(fd);
    return;
  }
  alignas(dirent64) char buffer[512];
  long size = 0;
  while ((size = hook::own_call(SYS_getdents64, directory, hook::word(buffer), sizeof(buffer))) >
         0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      unsigned fd = 0;
      const char* digit = entry->d_name;
      for (; *digit >= '0' && *digit <= '9'; ++digit) {
        fd = fd * 10 + static_cast<unsigned>(*digit - '0');
      }
      if (digit != entry->d_name && fd != static_cast<unsigned>(directory)) visit(fd);
      at += entry->d_reclen;
    }
  }
  hook::sys_close(directory);
}

// Finds rings that were opened since the last time. With `record_them`, records those not reported
// yet.
void look_for_rings(bool record_them) {
  for_each_descriptor([&](unsigned fd) {
    if (!may_be_ring(fd) || !is_ring(fd)) {
      set_seen(fd, false);
      return;
    }
    if (was_seen(fd)) return;
    set_seen(fd, true);
    if (!record_them) return;
    const uint64_t at = now();
    record({.call = Call::kIoUringSetup, .file = intern("<io_uring>"), .detail = kFoundOpen},
           {at, at, static_cast<int64_t>(fd)});
  });
}

}  // namespace

void note_ring(int fd) {
  if (fd >= 0) set_seen(static_cast<unsigned>(fd), true);
}

void record_found_rings() {
  if (recording(Level::kPosix)) look_for_rings(true);
}

void note_new_rings() { look_for_rings(false); }

}  // namespace millrace::trace
