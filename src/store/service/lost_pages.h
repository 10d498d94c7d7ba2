// Lost pages: a process that maps partitions survives when someone truncates them.
//
// Touching a mapped page that the file no longer has is SIGBUS. After replace_lost_pages(), such a
// page becomes zeros, for the rest of the process. So a member that was lost has a wrong checksum,
// like any other damaged member, and its bytes come from the next source. For processes that
// compare everything they read from a mapping with a checksum: the node service and `mount`.
//
// Reading partitions with pread was rejected: it copies every raw member once more. So was a jump
// out of the signal handler, which skips destructors.
#pragma once

namespace millrace::store {

// Installs a handler for SIGBUS. Faults of the memory itself still end the process.
void replace_lost_pages();

}  // namespace millrace::store
