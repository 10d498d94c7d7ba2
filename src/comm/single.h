// The Comm of a job of one rank: every call succeeds at once, and what it brings is the result.
#pragma once

#include <memory>

#include "comm/comm.h"

namespace millrace::comm {

std::unique_ptr<Comm> single();

}  // namespace millrace::comm
