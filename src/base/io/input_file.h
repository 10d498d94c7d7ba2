// open_input(): opens a file that a person named, for reading.
//
// A pipe or a socket is refused. Opening a pipe would wait until somebody writes to it, and a File
// cannot read from one.
#pragma once

#include <filesystem>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace {

// `more_flags` are those of open(2).
Result<File> open_input(const std::filesystem::path& path, int more_flags = 0);

}  // namespace millrace
