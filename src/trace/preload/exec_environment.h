// ExecEnvironment: what programs started by a traced one must find in their environment.
#pragma once

#include <cstddef>

#include "trace/preload/settings.h"

namespace millrace::trace {

// Keeps the library's path and the settings as they are now.
void remember_environment(const Settings& settings);

// How many bytes the completed environment takes; 0: it is complete.
size_t missing_environment_bytes(char* const* environment);

// The completed environment, in `memory`.
char** complete_environment(char* const* environment, void* memory);

}  // namespace millrace::trace
