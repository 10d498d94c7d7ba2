// Options that select a part of a trace: --from, --until, --ranks.
#pragma once

#include <vector>

#include "cli/options/command.h"
#include "interop/selection.h"

namespace millrace::cli {

std::vector<Option> part_options();

// The selected part; everything if no option is given.
Result<interop::Selection> part_of(const Arguments& arguments);

}  // namespace millrace::cli
