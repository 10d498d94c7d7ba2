// SessionUsers: processes that may still record into a session, even if they have not started to.
//
// A forked child creates its recording at its first recorded call, and a program when its libraries
// are loaded. Before that only /proc shows them: the child has inherited a mapping of the session's
// page, and the program has the session's path in its environment. Therefore this is checked before
// a session is removed.
//
// Independent of the processes' namespaces and of how they were started. Processes that we may not
// inspect (of another user, or protected from tracing) are not found.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/record/session_directory.h"

namespace millrace::trace {

// The PIDs as this process sees them, without itself and without the watcher of --all, which ends
// after everything it watches. Checks every process of the machine. REQUIRES: the session belongs
// to this boot.
std::vector<uint32_t> find_session_users(const SessionDirectory& session);

}  // namespace millrace::trace
