// ProgramMemory: reads memory through pointers of the program, which may be invalid.
//
// The kernel returns EFAULT for a bad pointer; a hook that follows it would crash the program. So
// the kernel reads these bytes for us (process_vm_readv on ourselves). This takes about a
// microsecond, and is used only for calls that failed or are rare.
#pragma once

#include <cstddef>

namespace millrace::hook {

// Copies at most `room` bytes of the text at `from`, without its terminating zero. Returns the
// length, or -1 if the text is null or not readable to its end.
long copy_text(const char* from, char* to, size_t room);

// Whether a null-terminated list of strings, as exec takes it, is readable: the whole list and the
// first byte of every string. A null list counts as empty.
bool can_read_strings(char* const* list);

}  // namespace millrace::hook
