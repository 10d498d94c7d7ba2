// say: writes a message to standard error from within somebody else's program.
#pragma once

#include <signal.h>
#include <time.h>

#include "hook/syscall.h"

namespace millrace::hook {

// One write, so that lines of several processes do not mix. If standard error is a closed pipe, the
// message is lost, but the program gets no SIGPIPE: it has not written anything.
inline void say(const char* text, size_t size) {
  const uint64_t broken_pipe = uint64_t{1} << (SIGPIPE - 1);
  uint64_t blocked = 0;
  uint64_t pending = 0;
  if (own_call(SYS_rt_sigprocmask, SIG_BLOCK, word(&broken_pipe), word(&blocked), 8) != 0) return;
  if ((blocked & broken_pipe) != 0) own_call(SYS_rt_sigpending, word(&pending), 8);
  if (sys_write(2, text, size) == -EPIPE && (pending & broken_pipe) == 0) {
    const timespec at_once{};
    own_call(SYS_rt_sigtimedwait, word(&broken_pipe), 0, word(&at_once), 8);
  }
  own_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&blocked), 0, 8);
}

}  // namespace millrace::hook
