// Lost pages: a process that maps partitions survives when someone truncates them.
//
// Touching a mapped page that the file no longer has is SIGBUS. After replace_lost_pages(), such a
// page becomes zeros: a member that was lost has a wrong checksum. For processes that compare
// everything they read from a mapping with a checksum: the node service and `mount`. Rejected:
// pread, which copies every raw member, and a jump out of the handler, which skips destructors.
#pragma once

namespace millrace::store {

// Installs a handler for SIGBUS. Faults of the memory itself still end the process.
void replace_lost_pages();

}  // namespace millrace::store
