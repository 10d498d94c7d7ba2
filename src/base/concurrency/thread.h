// Threads of ours inside a program that has its own threads.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace millrace {

// Runs `run` on a thread called `name`, of which the kernel keeps 15 characters. The thread blocks
// all signals except those that its own faults raise: signals belong to the program, whose threads
// may wait in calls that a signal must interrupt. Fails if the system cannot start another thread.
// `run` must not throw.
Result<std::thread> start_thread(const std::string& name, std::function<void()> run);

// `count` threads called "NAME 0" and so on; fewer if the system refuses more. Fails if there is
// none.
Result<std::vector<std::thread>> start_threads(const std::string& name, size_t count,
                                               const std::function<void()>& run);

// Gives the calling thread the CPU soon after it wakes up, even on a busy core, but only for short
// slices and no more than its fair share. For background work that another process waits for. Needs
// Linux 6.12; older kernels ignore it.
void ask_for_short_slices();

}  // namespace millrace
