// The contract of Comm as clauses that every implementation is held to, written once.
//
// Every rank of a job calls a clause's check with its own Comm; each returns what was broken, as
// that rank saw it. By threads in comm_test.cc, over MPI in tests/comm.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "comm/comm.h"

namespace millrace::comm {

struct ContractClause {
  std::string_view name;
  bool ends_in_failure;  // the Comm is of no use afterwards, or gone
  Status (*check)(std::unique_ptr<Comm>& comm);
};

std::span<const ContractClause> contract();

}  // namespace millrace::comm
