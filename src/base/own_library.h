// Own library: where the shared libraries lie that belong to this program and are loaded by name.
//
// There is one rule for the build tree, for `cmake --install` and for the Python package. Whether
// this code is in the program or in an extension of Python, its libraries are found relative to the
// file that it is in. So a tree works wherever it is copied or mounted.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace millrace {

// The folder of the file that holds this code: of the program, or of the extension.
std::filesystem::path own_folder();

// The library called `name` that belongs to this program (kNotFound: it is not there).
Result<std::filesystem::path> find_own_library(std::string_view name);

// The library that the environment variable names; an empty path if the variable is not set.
Result<std::filesystem::path> library_named_by(const char* variable);

}  // namespace millrace
