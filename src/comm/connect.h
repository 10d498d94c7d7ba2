// connect: returns the Comm of this process, which is a single rank or one of several.
//
// The launcher's environment variables decide. MPI is not asked: MPI_Init takes tens of
// milliseconds, starts threads and daemons, and fails in some containers and for root. Without such
// variables there is one rank, and no MPI library is loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

struct LostRank {
  Error error;          // the message to print, which names the lost rank
  bool speaks = false;  // whether this rank is the one that prints it
};
// Called on a thread of the Comm. It must end the program with _exit: the work cannot go on.
using LostRankFunction = std::function<void(const LostRank&)>;

struct ConnectOptions {
  // Called if a rank is lost while this one computes and makes no call that could fail. If empty,
  // the next call fails.
  LostRankFunction on_loss;
  // Longer messages are split: an MPI call takes at most 2^31 - 1 elements. Tests make it small.
  size_t piece_bytes = size_t{256} << 20;
};

// Call it once per process.
Result<std::unique_ptr<Comm>> connect(const ConnectOptions& options = {});

// ---- for the test ----

struct Launch {
  bool by_mpi = false;
  uint32_t size = 1;  // 0 if the launcher does not say
  std::string by;     // the variable that says so: "OMPI_COMM_WORLD_SIZE=4"
};

// `variable` is std::getenv or a stand-in.
Result<Launch> find_launch(const std::function<const char*(const char*)>& variable);

}  // namespace millrace::comm
