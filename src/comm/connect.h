// connect: the Comm of this process, as whoever started it meant: alone, or a rank of several.
//
// MPI is not asked who we are: MPI_Init takes tens of milliseconds, starts threads and daemons, and
// fails where a container or root may not. The launcher's variables in the environment tell.
// Without any of them this is one rank, and no MPI library is even loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

struct LostRank {
  Error error;          // the sentence to tell, which names the rank
  bool speaks = false;  // whether this rank is the one that tells it
};
// Called on a thread of ours. It is to end the program, by _exit: the work cannot go on.
using LostRankFunction = std::function<void(const LostRank&)>;

struct ConnectOptions {
  // For a rank that is lost while this one computes and makes no call that could fail. Empty: the
  // next call fails.
  LostRankFunction on_loss;
  // Longer messages go in pieces: an MPI takes at most 2^31 - 1 of anything. Tests make it small.
  size_t piece_bytes = size_t{256} << 20;
};

// Once a process.
Result<std::unique_ptr<Comm>> connect(const ConnectOptions& options = {});

// ---- for the test ----

struct Launch {
  bool by_mpi = false;
  uint32_t size = 1;  // 0: the launcher does not say
  std::string by;     // who says so: "OMPI_COMM_WORLD_SIZE=4"
};

// `variable` is std::getenv or a stand-in.
Result<Launch> find_launch(const std::function<const char*(const char*)>& variable);

}  // namespace millrace::comm
