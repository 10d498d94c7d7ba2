// Clock doubt: finds hosts whose clock is probably off, although nothing has measured it.
//
// The ranks of one job run at the same time: they start together, and wait for each other until the
// end. If those of a host that is aligned by its wall clock begin and end later than the others by
// the same time, then its clock is off. The job would look longer than it was, and nobody would
// notice.
#pragma once

#include <string>
#include <vector>

#include "trace/trace.h"

namespace millrace::trace {

// A sentence for each such host. The times of the processes are on the common clock.
std::vector<std::string> doubtful_clocks(const std::vector<Session>& sessions,
                                         const std::vector<Process>& processes);

}  // namespace millrace::trace
