// ProcName: paths such as "/proc/self/fd/7/x", "/dev/stdin" and "/proc/self/cwd", which lead
// through a descriptor or the working directory of this process. The kernel would follow them into
// the tree of the node.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

namespace millrace::store {

struct ProcName {
  int directory;          // a descriptor, or AT_FDCWD
  std::string_view rest;  // after it, such as "/x"; empty: none
};

// False if the path is another one.
bool parse_proc_name(std::string_view path, ProcName& out);

// What a program sees of a link that readlinkat() has read: a name below the root instead of one in
// the tree or in the upper directory. Keeps errno.
ssize_t show_link(ssize_t result, int directory, const char* path, char* buffer, size_t size);

}  // namespace millrace::store
