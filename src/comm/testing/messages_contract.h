// The contract of Messages: clauses that every implementation must satisfy. They run as those of
// comm_contract.h do.
#pragma once

#include <span>

#include "comm/testing/comm_contract.h"

namespace millrace::comm {

std::span<const ContractClause> messages_contract();

}  // namespace millrace::comm
