// SystemCallFilter: what tells the kernel which system calls to stop at.
//
// A seccomp filter, kept by everything the process starts. A stopped call waits for the process
// that traces it. Where there is none, such calls fail with ENOSYS: install it only under a tracer
// that stays.
#pragma once

#include <cstdint>

namespace millrace::trace {

// What a stop at a filtered call says about itself (PTRACE_GETEVENTMSG).
enum class FilterVerdict : uint16_t {
  kFollowed = 0,  // in followed_system_calls()
  kForeign = 1,   // moves bytes, but in the numbers of another architecture: a 32-bit program
};

// Installs the filter in this process, for good. 0, or an errno value. Where it takes it (no
// CAP_SYS_ADMIN), gives up gaining privileges by exec, as the kernel demands. Uses no heap: for
// the time between fork and exec.
int install_system_call_filter();

}  // namespace millrace::trace
