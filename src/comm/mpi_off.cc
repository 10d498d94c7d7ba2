#include "comm/mpi.h"

namespace millrace::comm {

Result<std::unique_ptr<Comm>> connect_mpi(const ConnectOptions&, const Launch& launch) {
  return fail(Errc::kUnsupported,
              "started as one of several ranks ({}), but this build has no MPI; install Open MPI "
              "(libopenmpi-dev) and build again, or run without mpirun (MILLRACE_COMM=single)",
              launch.by);
}

Result<std::string> describe_mpi(const Launch&) {
  return fail(Errc::kUnsupported, "this build has no MPI");
}

}  // namespace millrace::comm
