// ProgramMemory: looking at memory that a program pointed to, and that may not be there.
//
// The kernel returns EFAULT for a bad pointer; a hook that follows it would crash the program. So
// the kernel reads these bytes for us (process_vm_readv on ourselves): about a microsecond, for
// calls that failed or are rare.
#pragma once

#include <cstddef>

namespace millrace::hook {

// Copies the text at `from`, cut to `room`, without its terminating zero. The length; -1 if the
// text is null or cannot be read up to its end.
long copy_text(const char* from, char* to, size_t room);

// Whether a list of strings that ends in null, as exec takes it, can be read: the list as a whole
// and the first byte of every string. A null list is an empty one.
bool can_read_strings(char* const* list);

}  // namespace millrace::hook
