// Own library: finds the shared libraries that belong to this program and are loaded by name.
//
// One rule covers the build tree, `cmake --install` and the Python package: libraries are found
// relative to the file that contains this code, whether that is the program or a Python extension.
// So a tree works wherever it is copied or mounted.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace millrace {

// The directory of the file that contains this code: the program or the extension.
std::filesystem::path own_folder();

// Finds the library `name` of this program. Fails with kNotFound if it does not exist.
Result<std::filesystem::path> find_own_library(std::string_view name);

// The library that the environment variable names; an empty path if the variable is not set.
Result<std::filesystem::path> library_named_by(const char* variable);

}  // namespace millrace
