// Manual: the page that `man millrace` shows, generated from the table of commands.
#pragma once

#include <span>
#include <string>

#include "cli/build_info.h"
#include "cli/options/command.h"

namespace millrace::cli {

std::string manual_page(std::span<const Command> commands, const BuildInfo& info);

}  // namespace millrace::cli
