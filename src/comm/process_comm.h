// of_this_process(): a Comm that belongs to the process that made it, and to no child of fork().
//
// A child has neither the threads of its parent nor the right to call its MPI, and the locks that
// those threads held at that moment stay locked in it. So in a child every call fails and says why,
// and the destructors, which exit() may run, leave alone what they wrap. The same holds for the
// Messages that the Comm opens. Its descriptors are closed at the fork (own_file.h).
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

std::unique_ptr<Comm> of_this_process(std::unique_ptr<Comm> comm);

// What a call in a child of `rank_process` fails with.
Error forked_error(pid_t rank_process);

}  // namespace millrace::comm
