// ThreadsComm: the ranks of a job as threads of one process, so that tests need no launcher.
//
//   auto ranks = threads_comm(4);                 // one Comm for each thread, by rank
//   std::thread([comm = std::move(ranks[2])] { ... });
//
// A Comm that goes while others wait, or before they come, makes their call fail with its name. Not
// made for speed: the last rank to come does the work of all.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"

namespace millrace::comm {

// REQUIRES: size > 0.
std::vector<std::unique_ptr<Comm>> threads_comm(uint32_t size);

}  // namespace millrace::comm
