// of_this_process(): a Comm that works only in the process that made it, not in children of fork().
//
// A child lacks the threads of its parent and must not call its MPI, and locks that those threads
// held at the fork stay locked in it. So in a child every call fails and says why, and the
// destructors, which exit() may run, do not touch what they wrap. The same holds for the Messages
// that the Comm opens. Its descriptors are closed at the fork (own_file.h).
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

std::unique_ptr<Comm> of_this_process(std::unique_ptr<Comm> comm);

// The error of a call in a child of `rank_process`.
Error forked_error(pid_t rank_process);

}  // namespace millrace::comm
