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

}  // namespace millrace
