// SessionUsers: processes that may yet record into a session, whether or not they have begun to.
//
// A forked child makes its recording at its first call that the recorder sees, and a program when
// its libraries are loaded. Until then only /proc tells of them: the child has its parent's mapping
// of the session's page, the program has the session's path in its environment. A session is
// therefore looked at here before it is removed.
//
// Right whatever namespace the processes are in, and whichever way they were made. Those that we
// may not look at (of another user, or protected from being traced) are not found.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/session_directory.h"

namespace millrace::trace {

// Their numbers as this process sees them, without its own and without the watcher of --all, which
// ends after all it watches. Looks at every process of the machine.
// REQUIRES: the session is of this boot.
std::vector<uint32_t> find_session_users(const SessionDirectory& session);

}  // namespace millrace::trace
