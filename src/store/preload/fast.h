// Fast: opens, closes and replaces the descriptors of fast mode (fast_files.h).
//
// A file is fast if the service has placed its bytes in the arena of the node. All calls but reads
// make the descriptor real first: a descriptor of the file in the tree takes its number and offset.
#pragma once

#include <errno.h>

#include <cstdint>

#include "hook/real.h"
#include "store/preload/client.h"
#include "store/preload/fast_files.h"

namespace millrace::store {

extern constinit FastFiles fast_files;

// A vfork child shares our memory, but not our descriptors. Before it starts, all descriptors are
// made real; it must not change the table.
extern thread_local constinit bool in_vfork_child;

// A new descriptor. -1 if the file cannot be fast; errno is not changed.
int open_fast(uint32_t entry, int flags);

// close(2). False if the number is not ours. *result is 0, or -1 with errno.
bool close_fast(int fd, int* result);
// The kernel will close these, or give them to another file.
void disown_range(unsigned first, unsigned last);
// A standard descriptor was closed: the next open must return its number, as programs expect.
void note_low_closed();

// The kernel has given a number to another file. If it was one of ours, somebody has closed it
// without a hook.
void note_new_number(int fd);
// Gives the numbers that nobody has open back to the kernel. False if there are none.
bool close_parked();

inline int newly_made(int fd) {
  if (fd >= 0 && active()) note_new_number(fd);
  return fd;
}

// body() makes a descriptor. If the process has too many, those that we only keep are closed.
template <typename Body>
int with_new_fd(Body body) {
  const int fd = body();
  if (__builtin_expect(fd < 0 && errno == EMFILE && close_parked(), 0)) return newly_made(body());
  return newly_made(fd);
}

template <auto kHook, typename... Arguments>
int new_number(Arguments... arguments) {
  return with_new_fd([&] { return hook::real_call<kHook>(arguments...); });
}

// Puts a real descriptor under the same number if it is a fast one. False with errno: it is not
// open, or there is no real file.
bool make_real(int fd);

enum class Which : uint8_t { kAll, kInherited };  // kInherited: those that survive exec
void make_all_real(Which which);

// A call that needs a real descriptor.
template <typename Body>
auto natively(int fd, Body body) {
  if (!make_real(fd)) return failure<decltype(body())>(errno);
  return body();
}
template <auto kHook, typename... Arguments>
auto on_real(int fd, Arguments... arguments) {
  return natively(fd, [&] { return hook::real_call<kHook>(fd, arguments...); });
}

// body() gives the number `fd` to another file.
template <typename Body>
int replacing(int fd, Body body) {
  using State = FastFiles::State;
  if (in_vfork_child || fast_files.state(fd) == State::kNone) return body();
  const hook::SignalsBlocked blocked;
  const State before = fast_files.lock(fd, State::kOpen) ? State::kOpen : State::kParked;
  if (before == State::kParked && !fast_files.lock(fd, State::kParked)) return body();
  const int result = body();
  if (result < 0) {
    fast_files.unlock(fd, before);
  } else {
    fast_files.disown(fd);
  }
  return result;
}

}  // namespace millrace::store
