// cli: the command line of Millrace: one program, one file per verb.
//
// Each verb is a table entry (command.h) that describes its options, arguments and examples. The
// parser, the help, shell completion and the manual page are generated from it, so they always
// agree. Results go to standard output, everything else to standard error. Exit codes: 0 success, 1
// failure, 2 wrong usage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options/command.h"

namespace millrace::cli {

// The verbs in the order of --help.
std::span<const Command> commands();

// Runs the program with the arguments after its name; returns the exit code.
int run(const std::vector<std::string>& arguments);

}  // namespace millrace::cli
