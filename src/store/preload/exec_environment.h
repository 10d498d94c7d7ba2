// ExecEnvironment: keeps the library and its settings in the environment of started programs.
#pragma once

#include <cstddef>

namespace millrace::store {

// Call once, at the start.
void remember_environment();

// The memory that complete_environment needs; 0: nothing is missing.
size_t missing_environment_bytes(char* const* environment);
char** complete_environment(char* const* environment, void* memory);

}  // namespace millrace::store
