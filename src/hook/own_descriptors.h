// OwnDescriptors: opening a file where the program has no descriptor left.
//
// A program at its limit of descriptors could not be recorded any more: even a file that is mapped
// must be opened for a moment. So the work is done by a task that shares our memory but has a copy
// of the descriptor table, in which it may close what it likes.
#pragma once

namespace millrace::hook {

// Runs work(context) with some descriptors free, and returns when it is done. The work may map
// memory (it stays) and must use system calls only. False where the kernel refuses such a task.
bool with_own_descriptors(void (*work)(void*), void* context);

}  // namespace millrace::hook
