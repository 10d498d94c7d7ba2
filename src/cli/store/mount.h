// store_mount: the actions of `store` that mount a pack: mount, unmount.
#pragma once

#include <vector>

#include "cli/options/command.h"

namespace millrace::cli {

std::vector<Command> mount_actions();

}  // namespace millrace::cli
