// Path: normalises paths, so that each file has one name.
//
// Lexical: "/a//b/./c/../d" becomes "/a/b/d". Symbolic links are not followed, because that takes
// system calls for every component. So ".." after a link is resolved as if the link were a
// directory.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::hook {

// Longer paths are cut.
inline constexpr size_t kPathSizeMax = 8192;

struct PathBuffer {
  char text[kPathSizeMax];
  size_t size = 0;

  std::string_view view() const { return {text, size}; }
};

// Writes `path` into `out`, always absolute. Relative paths start at `directory`.
void normalise_path(std::string_view directory, std::string_view path, PathBuffer& out);

}  // namespace millrace::hook
