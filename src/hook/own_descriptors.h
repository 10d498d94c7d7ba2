// OwnDescriptors: opens files when the program has no free descriptor.
//
// Without this, a program at its descriptor limit could not be recorded: even a file that is mapped
// must be open for a moment. So a task that shares our memory, but has a copy of the descriptor
// table, does the work. It may close any descriptor of the copy.
#pragma once

namespace millrace::hook {

// Runs work(context) with some descriptors free, and waits for it. The work must use system calls
// only. Memory that it maps stays mapped. False if the kernel refuses the task.
bool with_own_descriptors(void (*work)(void*), void* context);

}  // namespace millrace::hook
