// The contract of Comm: clauses that every implementation must satisfy.
//
// Every rank of a job calls the check of a clause with its own Comm, and each returns what it saw
// broken. comm_test.cc runs them on threads, tests/comm over MPI.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "comm/comm.h"

namespace millrace::comm {

struct ContractClause {
  std::string_view name;
  bool ends_in_failure;  // the Comm is unusable or destroyed afterwards
  Status (*check)(std::unique_ptr<Comm>& comm);
};

std::span<const ContractClause> contract();

}  // namespace millrace::comm
