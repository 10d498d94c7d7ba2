// ThreadsComm: runs the ranks of a job as threads of one process, so that tests need no launcher.
//
//   auto ranks = threads_comm(4);                 // one Comm for each thread, by rank
//   std::thread([comm = std::move(ranks[2])] { ... });
//
// If a Comm is destroyed before all ranks have made a call, that call fails on the others and names
// its rank. Not made for speed: the last rank to arrive does the work of all.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"

namespace millrace::comm {

// REQUIRES: size > 0.
std::vector<std::unique_ptr<Comm>> threads_comm(uint32_t size);

}  // namespace millrace::comm
