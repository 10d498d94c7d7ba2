// Path: a file's name written one way, so that two names of a file are one.
//
// Lexical: "/a//b/./c/../d" is "/a/b/d". Symbolic links are not followed, which would take system
// calls for every component; ".." after a link is therefore resolved as if the link were a
// directory.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::hook {

// The longest path that is kept; what is longer is cut at its end.
inline constexpr size_t kPathSizeMax = 8192;

struct PathBuffer {
  char text[kPathSizeMax];
  size_t size = 0;

  std::string_view view() const { return {text, size}; }
};

// Writes `path`, seen from `directory` where it is relative, into `out`. Always absolute.
void normalise_path(std::string_view directory, std::string_view path, PathBuffer& out);

}  // namespace millrace::hook
