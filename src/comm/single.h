// The Comm of a job with one rank: every call succeeds at once and returns its own input.
#pragma once

#include <memory>

#include "comm/comm.h"

namespace millrace::comm {

std::unique_ptr<Comm> single();

}  // namespace millrace::comm
