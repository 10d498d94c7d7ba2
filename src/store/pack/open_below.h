// open_below: opens a path relative to an open directory, of any length.
//
// A path in a pack may be longer than the kernel accepts in one call (PATH_MAX). It is then opened
// in several steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

// Opens a directory by an ordinary path.
Result<File> open_directory(const std::string& path);

// `flags` and `mode` are those of openat(2). "" is the directory itself.
Result<File> open_below(const File& directory, std::string_view path, int flags,
                        unsigned mode = 0644);

// The directory that contains `path`.
Result<File> open_parent(const File& directory, std::string_view path);

// The last component of a path.
std::string base_name(std::string_view path);

// A symbolic link at `path`, with its time.
Status make_link_below(const File& directory, const std::string& path, std::string_view target,
                       int64_t mtime_ns);

}  // namespace millrace::store
