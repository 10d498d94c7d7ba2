// Functions of liburing that set up a ring or submit entries. They return errors as negative errno
// values; an event has -1 and the error.
#include "trace/preload/uring.h"

#include <errno.h>
#include <signal.h>

#include "trace/preload/foreign.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {
namespace {

// One of these functions may call another, which is then not an event of its own.
thread_local constinit bool inside = false;

// `size` is the request: the entries of the new ring, or the completions to wait for. The result is
// the ring's descriptor or 0, or the number of submitted entries.
template <typename Function, typename Body>
int on_ring(Foreign<Function>& real, const void* caller, Call call, uint64_t size, Body body) {
  Function* function = real.get(caller);
  if (function == nullptr) return -ENOSYS;
  if (inside || !recording(Level::kPosix)) return body(function);
  const NameId name = intern("<io_uring>");
  const bool setup = call == Call::kIoUringSetup;
  if (setup) record_found_rings();
  inside = true;
  const uint64_t begin = now();
  const int result = body(function);
  const uint64_t end = now();
  inside = false;
  if (setup && result >= 0) note_new_rings();
  if (!ignored(name)) {
    record({.call = call, .file = name, .size = size},
           {begin, end, result < 0 ? -1 : result, result < 0 ? -result : 0});
  }
  return result;
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

int io_uring_queue_init(unsigned entries, void* ring, unsigned flags) {
  static constinit Foreign<decltype(io_uring_queue_init)> real{"io_uring_queue_init"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringSetup, entries,
                 [&](auto* function) { return function(entries, ring, flags); });
}

int io_uring_queue_init_params(unsigned entries, void* ring, void* parameters) {
  static constinit Foreign<decltype(io_uring_queue_init_params)> real{"io_uring_queue_init_params"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringSetup, entries,
                 [&](auto* function) { return function(entries, ring, parameters); });
}

int io_uring_queue_init_mem(unsigned entries, void* ring, void* parameters, void* memory,
                            size_t size) {
  static constinit Foreign<decltype(io_uring_queue_init_mem)> real{"io_uring_queue_init_mem"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringSetup, entries,
                 [&](auto* function) { return function(entries, ring, parameters, memory, size); });
}

int io_uring_setup(unsigned entries, void* parameters) {
  static constinit Foreign<decltype(io_uring_setup)> real{"io_uring_setup"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringSetup, entries,
                 [&](auto* function) { return function(entries, parameters); });
}

int io_uring_enter(unsigned fd, unsigned submit, unsigned wait, unsigned flags, sigset_t* mask) {
  static constinit Foreign<decltype(io_uring_enter)> real{"io_uring_enter"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, wait,
                 [&](auto* function) { return function(fd, submit, wait, flags, mask); });
}

int io_uring_enter2(unsigned fd, unsigned submit, unsigned wait, unsigned flags, sigset_t* mask,
                    size_t size) {
  static constinit Foreign<decltype(io_uring_enter2)> real{"io_uring_enter2"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, wait,
                 [&](auto* function) { return function(fd, submit, wait, flags, mask, size); });
}

int io_uring_submit(void* ring) {
  static constinit Foreign<decltype(io_uring_submit)> real{"io_uring_submit"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, 0,
                 [&](auto* function) { return function(ring); });
}

int io_uring_submit_and_wait(void* ring, unsigned wait) {
  static constinit Foreign<decltype(io_uring_submit_and_wait)> real{"io_uring_submit_and_wait"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, wait,
                 [&](auto* function) { return function(ring, wait); });
}

int io_uring_submit_and_wait_timeout(void* ring, void** completion, unsigned wait, void* timeout,
                                     sigset_t* mask) {
  static constinit Foreign<decltype(io_uring_submit_and_wait_timeout)> real{
      "io_uring_submit_and_wait_timeout"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, wait,
                 [&](auto* function) { return function(ring, completion, wait, timeout, mask); });
}

int io_uring_submit_and_get_events(void* ring) {
  static constinit Foreign<decltype(io_uring_submit_and_get_events)> real{
      "io_uring_submit_and_get_events"};
  return on_ring(real, __builtin_return_address(0), Call::kIoUringEnter, 0,
                 [&](auto* function) { return function(ring); });
}

}  // extern "C"
