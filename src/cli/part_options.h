// Options by which a user takes a part of a trace: --from, --until, --ranks.
#pragma once

#include <vector>

#include "cli/command.h"
#include "interop/selection.h"

namespace millrace::cli {

std::vector<Option> part_options();

// What they say; everything where none is given.
Result<interop::Selection> part_of(const Arguments& arguments);

}  // namespace millrace::cli
