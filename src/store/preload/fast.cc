#include "store/preload/fast.h"

#include <fcntl.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/copy_bytes.h"
#include "store/preload/lookup.h"

namespace millrace::store {

constinit FastFiles fast_files;
thread_local constinit bool in_vfork_child = false;

namespace {

using State = FastFiles::State;

// With any other flag, such as O_DIRECT, the file is opened natively.
constexpr int kFastFlags = O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK | O_LARGEFILE;

// Closed descriptors kept for reuse. Beyond this many, close them for real.
constexpr uint32_t kNumbersMax = 64;

constinit std::atomic<bool> low_closed{false};
thread_local constinit int last_closed = -1;  // the first candidate for the next open

// A descriptor that refuses everything. Opening it by its name in /proc fails, too: it is a socket.
int open_refusing() {
  const hook::Scratch<RealPath> path;
  if (!path) return -ENOMEM;
  Text(path->text).add(client.node).add("/").add(wire::kStoreSocketFile);
  return hook::sys_open(path->text, O_PATH);
}

// A number that is busy for this thread; -1 if there is none.
int take_number() {
  const bool must_be_lowest = low_closed.load(std::memory_order_relaxed);
  if (!must_be_lowest) {
    const int parked = fast_files.claim(last_closed);
    if (parked >= 0) return parked;
  }
  const int fd = open_refusing();
  if (fd < 0) return -1;
  if (must_be_lowest && fd > STDERR_FILENO) low_closed.store(false, std::memory_order_relaxed);
  forget(fd);
  if (fast_files.adopt(fd)) return fd;
  hook::sys_close(fd);
  return -1;
}

// Null if they are not in the arena.
const std::byte* bytes_in_arena(uint32_t index, uint64_t size_bytes) {
  if (size_bytes == 0) return client.arena;
  const std::atomic_ref<uint64_t> published(client.places[index]);
  uint64_t place = published.load(std::memory_order_acquire);
  if (place == wire::kPlaceNone) {
    if (ask_for(index, wire::StoreRequestKind::kPlace) != 0) return nullptr;
    place = published.load(std::memory_order_acquire);
  }
  if (place < wire::kPlaceAlignment || place > client.arena_bytes ||
      size_bytes > client.arena_bytes - place) {
    return nullptr;
  }
  return client.arena + place;
}

// A real descriptor of the file; -1 with errno.
int open_real(const FastFile& file) {
  return with_real_path(file.entry, [&](const char* path) {
    const int fd = hook::sys_open(path, static_cast<int>(file.flags) & ~O_CLOEXEC);
    return fd < 0 ? failure<int>(-fd) : fd;
  });
}

// REQUIRES: `fd` is busy, or this is a vfork child.
void put_under_number(int real, int fd, const FastFile& file, uint64_t offset) {
  hook::sys_lseek(real, static_cast<long>(offset), SEEK_SET);
  if (real != fd) {
    hook::own_call(SYS_dup3, real, fd, static_cast<long>(file.flags & O_CLOEXEC));
    hook::sys_close(real);
  } else {
    hook::own_call(SYS_fcntl, fd, F_SETFD, (file.flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0);
  }
}

// At the limit of descriptors, the number itself is the only free one.
bool make_real_in_place(int fd) {
  const hook::SignalsBlocked blocked;
  if (!fast_files.lock(fd, State::kOpen)) return true;
  const FastFile file = fast_files.locked(fd);
  hook::sys_close(fd);
  const int real = open_real(file);
  if (real < 0) {
    const int error = errno;
    const int again = open_refusing();
    if (again == fd) {
      fast_files.unlock(fd, State::kOpen);
    } else {  // another thread was faster
      if (again >= 0) hook::sys_close(again);
      fast_files.disown(fd);
    }
    errno = error;
    return false;
  }
  put_under_number(real, fd, file, fast_files.offset(fd));
  note_opened(fd, file.entry);
  fast_files.disown(fd);
  return true;
}

}  // namespace

int open_fast(uint32_t index, int flags) {
  if (client.arena == nullptr || (flags & ~kFastFlags) != 0 || in_vfork_child) return -1;
  const wire::CatalogueEntry entry = client.catalogue.entry(index);
  const bool can_be_fast = entry.kind == wire::EntryKind::kFile && (entry.mode & 0400) != 0 &&
                           entry.size_bytes < FastFiles::kOffsetEnd;
  if (!can_be_fast) return -1;
  const std::byte* bytes = bytes_in_arena(index, entry.size_bytes);
  if (bytes == nullptr) return -1;
  prefetch_pages(bytes, entry.size_bytes);
  const int fd = take_number();
  if (fd < 0) return -1;
  fast_files.open(fd, {.bytes = bytes,
                       .size_bytes = entry.size_bytes,
                       .entry = index,
                       .flags = static_cast<uint32_t>(flags)});
  return fd;
}

bool close_fast(int fd, int* result) {
  if (in_vfork_child) return false;
  if (__builtin_expect(fast_files.count() <= kNumbersMax, 1)) {
    if (__builtin_expect(fast_files.close(fd), 1)) {
      last_closed = fd;
      *result = 0;
      return true;
    }
  } else if (fast_files.lock(fd, State::kOpen)) {
    fast_files.disown(fd);
    hook::sys_close(fd);
    *result = 0;
    return true;
  }
  if (fast_files.state(fd) != State::kParked) return false;
  *result = failure<int>(EBADF);
  return true;
}

void disown_range(unsigned first, unsigned last) {
  if (in_vfork_child) return;
  for (int fd = static_cast<int>(first < 0x7fffffff ? first : 0x7fffffff);
       fd <= fast_files.highest() && static_cast<unsigned>(fd) <= last; ++fd) {
    fast_files.disown(fd);
  }
}

void note_new_number(int fd) {
  forget(fd);
  if (!in_vfork_child) fast_files.disown(fd);
}

bool close_parked() {
  if (in_vfork_child) return false;
  const int saved_errno = errno;
  bool has_closed = false;
  for (int fd = 0; fd <= fast_files.highest(); ++fd) {
    if (!fast_files.lock(fd, State::kParked)) continue;
    // First: as soon as it is closed, another thread may get it.
    fast_files.disown(fd);
    hook::sys_close(fd);
    has_closed = true;
  }
  errno = saved_errno;
  return has_closed;
}

void note_low_closed() { low_closed.store(true, std::memory_order_relaxed); }

bool make_real(int fd) {
  for (;;) {
    FastFile file;
    const State state = fast_files.look(fd, file);
    if (state == State::kNone) return true;
    if (state == State::kParked) return failure<int>(EBADF) == 0;
    const int real = open_real(file);
    if (real < 0) return errno == EMFILE && !in_vfork_child && make_real_in_place(fd);
    if (in_vfork_child) {
      put_under_number(real, fd, file, fast_files.offset(fd));
      return true;
    }
    const hook::SignalsBlocked blocked;
    const bool is_locked = fast_files.lock(fd, State::kOpen);
    const FastFile now = is_locked ? fast_files.locked(fd) : FastFile{};
    if (!is_locked || now.entry != file.entry) {  // another thread has closed it
      hook::sys_close(real);
      if (is_locked) fast_files.unlock(fd, State::kOpen);
      continue;
    }
    put_under_number(real, fd, now, fast_files.offset(fd));
    note_opened(fd, now.entry);
    fast_files.disown(fd);
    return true;
  }
}

void make_all_real(Which which) {
  if (in_vfork_child) return;
  const int saved_errno = errno;
  for (int fd = 0; fd <= fast_files.highest(); ++fd) {
    FastFile file;
    if (fast_files.look(fd, file) != State::kOpen) continue;
    if (which == Which::kInherited && (file.flags & O_CLOEXEC) != 0) continue;
    make_real(fd);
  }
  errno = saved_errno;
}

}  // namespace millrace::store
