// Completion script: lets a shell complete the command line of Millrace.
//
// The script contains all words, so that a shell need not start our program to complete one.
#pragma once

#include <span>
#include <string>

#include "cli/options/command.h"

namespace millrace::cli {

std::string bash_completion(std::span<const Command> commands);
std::string zsh_completion(std::span<const Command> commands);
std::string fish_completion(std::span<const Command> commands);

}  // namespace millrace::cli
