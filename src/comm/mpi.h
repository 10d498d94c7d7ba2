// The Comm over MPI: an optional part, in separate libraries that are loaded on demand.
//
// MPIs differ in their ABI, and the one to use is the cluster's. So there is a library for each
// kind of MPI (libmillrace_mpi_openmpi.so, libmillrace_mpi_mpich.so), and the right one is chosen
// at run time (docs/design/ranks.md). A build without the part has mpi_off.cc instead.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/connect.h"

namespace millrace::comm {

Result<std::unique_ptr<Comm>> connect_mpi(const ConnectOptions& options, const Launch& launch);

// The MPI that this process uses, for people: "Open MPI v4.1.4 (/usr/lib/libmpi.so.40)".
Result<std::string> describe_mpi(const Launch& launch);

// What such a library exports under this name (mpi_connect.cc). Both must come from the same build.
inline constexpr const char* kMpiEntryName = "millrace_mpi_entry";
struct MpiEntry {
  const char* version;  // of Millrace
  Result<std::unique_ptr<Comm>> (*connect)(const ConnectOptions& options, const Launch& launch);
  std::string (*describe)();
};

// ---- for the test ----

// The kinds of MPI that a process with this environment may use, best first.
std::vector<std::string_view> mpis_for(const std::function<const char*(const char*)>& variable);

}  // namespace millrace::comm
