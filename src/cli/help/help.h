// Help: what --help and --version print.
#pragma once

#include <span>
#include <string>

#include "base/system/terminal.h"
#include "cli/build_info.h"
#include "cli/options/command.h"

namespace millrace::cli {

std::string program_help(std::span<const Command> commands, const Terminal& terminal);
std::string command_help(const Command& command, const Terminal& terminal);

// "millrace doctor [OPTIONS] [DIR...]"
std::string usage_line(const Command& command);

// "-o, --output FILE"
std::string option_spelling(const Option& option);

std::string version_text(const BuildInfo& info, const Terminal& terminal);
std::string version_json(const BuildInfo& info);

}  // namespace millrace::cli
