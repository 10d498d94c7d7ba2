// Completion script: lets a shell complete the command line of Millrace.
//
// Written out in full from the table of commands: a completed word costs no start of our program.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace millrace::cli {

std::string bash_completion(std::span<const Command> commands);
std::string zsh_completion(std::span<const Command> commands);
std::string fish_completion(std::span<const Command> commands);

}  // namespace millrace::cli
