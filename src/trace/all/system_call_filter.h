// SystemCallFilter: tells the kernel at which system calls to stop.
//
// A seccomp filter, inherited by everything the process starts. A stopped call waits for the tracer
// of its process. Without a tracer, such calls fail with ENOSYS: install the filter only under a
// tracer that stays.
#pragma once

#include <cstdint>

namespace millrace::trace {

// What a stop at a filtered call reports (PTRACE_GETEVENTMSG).
enum class FilterVerdict : uint16_t {
  kFollowed = 0,  // in followed_system_calls()
  kForeign = 1,   // moves bytes, but uses another architecture's numbers: a 32-bit program
};

// Installs the filter in this process, permanently. Returns 0 or an errno value. Without
// CAP_SYS_ADMIN it first gives up gaining privileges by exec, as the kernel demands. Uses no heap:
// it runs between fork and exec.
int install_system_call_filter();

}  // namespace millrace::trace
