// Entering a sandbox with seccomp. Afterwards, a system call that the program did not expect may
// kill it. So the whole process stops recording just before: hooks then only make the real call.
// All threads stop, because one filter may apply to all of them (TSYNC), and so do forked children,
// which inherit it.
//
// Not seen: a filter installed by a raw system call instruction, or by a vfork child.
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trace/preload/hooks/hooks.h"
#include "trace/preload/mappings.h"
#include "trace/preload/uring.h"

namespace millrace::trace {
namespace {

// `mode` is SECCOMP_MODE_STRICT or SECCOMP_MODE_FILTER. `accepted(result)` says whether the kernel
// accepted.
template <typename Body, typename Accepted>
auto entering_sandbox(uint32_t mode, Body body, Accepted accepted) {
  if (!tracking() || writer.in_vfork) return body();
  if (recording(Level::kPosix)) {
    record_live_mappings();
    record_found_rings();
  }
  // Recorded whatever the levels are: otherwise nothing would explain why the recording ends.
  Announced sandbox({.call = Call::kSeccomp, .detail = mode});
  const uint32_t gate = stop_recording();
  const auto result = body();
  if (accepted(result)) return result;
  const int error = errno;
  resume_recording(gate);
  sandbox.take_back(-1, error);
  errno = error;
  return result;
}

}  // namespace

long seccomp_call(long operation, long flags, long argument) {
  using Syscall = long(long, ...);
  static constinit Real<Syscall> real{"syscall"};
  const auto body = [&] { return real.get()(SYS_seccomp, operation, flags, argument); };
  // A null filter only asks whether the kernel has filters; it is refused.
  const bool enters = operation == SECCOMP_SET_MODE_STRICT ||
                      (operation == SECCOMP_SET_MODE_FILTER && argument != 0);
  if (!enters) return body();
  return entering_sandbox(
      operation == SECCOMP_SET_MODE_STRICT ? SECCOMP_MODE_STRICT : SECCOMP_MODE_FILTER, body,
      // With TSYNC, the TID of a thread that could not follow; with NEW_LISTENER, a descriptor.
      [&](long result) {
        return result == 0 || (result > 0 && (static_cast<unsigned long>(flags) &
                                              SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0);
      });
}

}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" int prctl(int operation, ...) {
  using Prctl = int(int, ...);
  static constinit Real<Prctl> real{"prctl"};
  // Four arguments, as in the C library: those that were not passed are not used.
  va_list arguments;
  va_start(arguments, operation);
  const auto a = va_arg(arguments, unsigned long);
  const auto b = va_arg(arguments, unsigned long);
  const auto c = va_arg(arguments, unsigned long);
  const auto d = va_arg(arguments, unsigned long);
  va_end(arguments);
  const auto body = [&] { return real.get()(operation, a, b, c, d); };
  const bool enters = operation == PR_SET_SECCOMP &&
                      (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b != 0));
  if (!enters) return body();
  return entering_sandbox(static_cast<uint32_t>(a), body, [](int result) { return result == 0; });
}
