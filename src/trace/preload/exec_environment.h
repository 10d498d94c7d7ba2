// ExecEnvironment: the environment that programs started by a traced program need.
#pragma once

#include <cstddef>

#include "trace/preload/settings.h"

namespace millrace::trace {

// Saves the library's path and the settings as they are now.
void remember_environment(const Settings& settings);

// The size of the completed environment in bytes; 0: nothing is missing.
size_t missing_environment_bytes(char* const* environment);

// Writes the completed environment into `memory`.
char** complete_environment(char* const* environment, void* memory);

}  // namespace millrace::trace
