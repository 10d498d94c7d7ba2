// Shown: names in the tree of the node that stand for files of other nodes (wire/store_name.h).
#pragma once

#include <string_view>

#include "hook/syscall.h"
#include "store/preload/client.h"
#include "store/preload/lookup.h"
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

// A program changes the file at a path. If it is one of another node, it becomes one of this node
// first; the others hear of it when it is closed. 0, or an errno value.
inline int take_named(int directory, const char* path, bool needs_bytes = true) {
  if (!active() || !client.has_written()) return 0;
  Lookup lookup;
  const Place place = lookup.find(directory, path, Last::kLook);
  if (!place.is_written || place.where != Where::kElsewhere || !is_shown(place.path)) return 0;
  announce_names(place.entry);
  return take_file(place.path, needs_bytes);
}

}  // namespace millrace::store
