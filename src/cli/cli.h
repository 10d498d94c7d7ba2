// cli: the command line of Millrace: one program, a file a verb.
//
// Each verb is a table entry (command.h) that says its options, arguments and examples; parsing,
// --help, shell completion and the manual page are made from that one description and cannot
// disagree. Results go to standard output, everything else to standard error. Exit codes: 0 it
// worked, 1 it did not, 2 it was called wrongly.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"

namespace millrace::cli {

// The verbs in the order of --help.
std::span<const Command> commands();

// Runs the program with the arguments after its name; returns the exit code.
int run(const std::vector<std::string>& arguments);

}  // namespace millrace::cli
