// Directories: created for their user only, since they contain samples, file names and command
// lines; and made durable.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace millrace {

// Creates the directory and its parents if they are missing, each with mode 0700 whatever the
// umask. Existing directories are not changed.
Status make_directories(const std::filesystem::path& path);

// The same for a directory that only Millrace writes to. An existing one must belong to this user,
// and its mode becomes 0700. Fails if it is a symbolic link, or if other users could replace it,
// because its parent belongs to someone else, is not sticky, and is writable for more than its
// owner.
Status make_private_directory(const std::filesystem::path& path);

// The directory that contains `path`.
std::filesystem::path directory_of(const std::filesystem::path& path);

// On return, the names in the directory are on the device.
Status sync_directory(const std::filesystem::path& directory);

}  // namespace millrace
