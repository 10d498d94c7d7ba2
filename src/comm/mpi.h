// The Comm over MPI: an optional part, in the library libmillrace_mpi.so, loaded where it is
// needed.
//
// Not linked into the program: a program linked with one MPI does not start where that is missing,
// and its start would take half as long again (docs/design/ranks.md). A build without the part has
// mpi_off.cc, which says how to have it.
#pragma once

#include <memory>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/connect.h"

namespace millrace::comm {

Result<std::unique_ptr<Comm>> connect_mpi(const ConnectOptions& options, const Launch& launch);

// What the library exports, under this name: mpi_connect.cc. Both are made by one build.
inline constexpr const char* kMpiEntryName = "millrace_mpi_entry";
struct MpiEntry {
  const char* version;  // of Millrace
  Result<std::unique_ptr<Comm>> (*connect)(const ConnectOptions& options, const Launch& launch);
};

}  // namespace millrace::comm
