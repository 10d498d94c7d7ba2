// Shown: names in the tree of the node that stand for files of other nodes (wire/store_name.h).
#pragma once

#include <string_view>

#include "hook/syscall.h"
#include "store/preload/client.h"
#include "wire/store_name.h"

namespace millrace::store {

struct ShownTarget {
  char text[kPathBytes];  // with a zero
};

// Whether a real path can be such a name at all.
inline bool may_be_shown(const char* real) {
  return active() && client.has_written() && client.below_tree(real).data() != nullptr;
}

// The target of such a name, given its real path; empty if it is another one. Keeps errno.
inline std::string_view read_shown(const char* real, ShownTarget& out) {
  if (!may_be_shown(real)) return {};
  const long size = hook::sys_readlink(real, out.text, sizeof(out.text) - 1);
  if (size <= 0) return {};
  out.text[size] = '\0';
  const std::string_view target(out.text, static_cast<size_t>(size));
  return wire::is_shown_target(target) ? target : std::string_view();
}

inline bool is_shown(const char* real) {
  if (!may_be_shown(real)) return false;
  const hook::Scratch<ShownTarget> target;
  return target && !read_shown(real, *target).empty();
}

}  // namespace millrace::store
