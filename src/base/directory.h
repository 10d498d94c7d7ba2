// Directories: made for their user alone, since they hold samples, file names and command lines;
// and made durable.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace millrace {

// Makes the directory and its parents if they are missing, each with mode 0700 whatever the umask.
// What exists stays as it is.
Status make_directories(const std::filesystem::path& path);

// The same for a directory that only Millrace writes to. An existing one must belong to this user,
// and its mode becomes 0700. Fails if it is a symbolic link, or if other users could replace it:
// the directory above it is theirs, is not sticky, and more than its owner may write to it.
Status make_private_directory(const std::filesystem::path& path);

// The directory that holds `path`.
std::filesystem::path directory_of(const std::filesystem::path& path);

// On return the names in the directory are on the device.
Status sync_directory(const std::filesystem::path& directory);

}  // namespace millrace
