// A thread of ours in a program that has threads of its own.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"

namespace millrace {

// Runs `run` on a thread with that name, of which the kernel keeps 15 characters. The thread takes
// no signal: they are the program's, whose own threads wait in calls that a signal shall end. Only
// those that a thread raises itself by a fault stay with it. Fails where the system gives no more
// threads. `run` must not throw.
Result<std::thread> start_thread(const std::string& name, std::function<void()> run);

// Lets the calling thread on a core that computes soon after it is woken, for a short while each
// time and for no more than its fair share: for work in the background that another process waits
// for. From Linux 6.12 on; others take no notice of it.
void ask_for_short_slices();

}  // namespace millrace
