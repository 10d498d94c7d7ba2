// The contract of Messages as clauses that every implementation is held to, written once.
//
// As comm_contract.h: every rank of a job calls a clause's check with its own Comm, and each
// returns what was broken, as that rank saw it. By threads in comm_test.cc, over MPI in tests/comm.
#pragma once

#include <span>

#include "comm/comm_contract.h"

namespace millrace::comm {

std::span<const ContractClause> messages_contract();

}  // namespace millrace::comm
