// ProgramEnvironment: what programs need in their environment to use a store.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::store {

// A variable of our environment; empty if it is not set.
std::string variable_of(const char* name);

// The preload library: MILLRACE_STORE_LIBRARY, or the one that belongs to this program.
Result<std::filesystem::path> find_client_library();

// LD_PRELOAD with the library after those that are there already: the tracer comes first, and sees
// the program's calls. `before` is its value now.
std::string preload_with(const std::string& before, const std::filesystem::path& library);

// Open MPI gives programs on other hosts only the variables that one of its variables lists, whose
// value is `before` now: that list with ours at the end.
std::string forwarded_list(std::string before, const std::filesystem::path& node,
                           const std::string& preload);

// The environment of a command that uses the store of this folder, NAME=VALUE.
std::vector<std::string> program_environment(const std::filesystem::path& node,
                                             const std::filesystem::path& library);

// The lines with which a shell sets the same.
std::string shell_exports(const std::filesystem::path& node, const std::filesystem::path& library);

// In single quotes, so that nothing in it has a meaning for a shell.
std::string shell_quoted(const std::string& text);

}  // namespace millrace::store
