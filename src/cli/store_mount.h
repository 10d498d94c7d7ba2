// store_mount: the actions of `store` that mount a pack: mount, unmount.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace millrace::cli {

std::vector<Option> mount_options();

Result<int> run_mount_action(const Arguments& arguments, Output& output);
Result<int> run_unmount_action(const Arguments& arguments, Output& output);

}  // namespace millrace::cli
