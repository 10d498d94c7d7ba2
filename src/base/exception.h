// fail_exception: the exception that is being handled, as an error.
//
// For threads that others wait for: an exception that leaves a thread terminates the process.
#pragma once

#include "base/result.h"

namespace millrace {

// REQUIRES: called in a catch block.
Error fail_exception();

}  // namespace millrace
