#include "store/preload/resolve.h"

#include <errno.h>

#include <cstring>

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::CatalogueView;
using wire::EntryKind;

constexpr size_t kNameBytesMax = 255;

Place failed(int error, bool only_last_missing = false) {
  return {.where = Where::kFailed, .only_last_missing = only_last_missing, .error = error};
}

std::string_view rest_of(const Walk& walk) {
  return {walk.rest + walk.rest_begin, sizeof(walk.rest) - 1 - walk.rest_begin};
}

void drop_component(Walk& walk) {
  while (walk.current_size > 0 && walk.current[walk.current_size - 1] != '/') --walk.current_size;
  if (walk.current_size > 0) --walk.current_size;
}

// 0, or an errno value.
int add_component(Walk& walk, std::string_view name) {
  if (name.size() > kNameBytesMax) return ENAMETOOLONG;
  if (walk.current_size + 1 + name.size() >= sizeof(walk.current)) return ENAMETOOLONG;
  if (walk.current_size > 0) walk.current[walk.current_size++] = '/';
  std::memcpy(walk.current + walk.current_size, name.data(), name.size());
  walk.current_size += name.size();
  return 0;
}

// Puts text in front of what is left to do.
bool prepend(Walk& walk, std::string_view text) {
  if (text.size() > walk.rest_begin) return false;
  walk.rest_begin -= text.size();
  std::memcpy(walk.rest + walk.rest_begin, text.data(), text.size());
  return true;
}

void skip_slashes(Walk& walk) {
  while (walk.rest[walk.rest_begin] == '/') ++walk.rest_begin;
}

// The next component; empty at the end.
std::string_view take_component(Walk& walk) {
  skip_slashes(walk);
  const std::string_view rest = rest_of(walk);
  const void* slash = std::memchr(rest.data(), '/', rest.size());
  const size_t size = slash == nullptr
                          ? rest.size()
                          : static_cast<size_t>(static_cast<const char*>(slash) - rest.data());
  walk.rest_begin += size;
  return {rest.data(), size};
}

// `..` of the program at the root: the rest belongs to the directory above.
Place leave_root(const Catalogued& tree, Walk& walk) {
  size_t parent = tree.root.size();
  while (parent > 0 && tree.root[parent - 1] != '/') --parent;  // with its slash
  skip_slashes(walk);
  if (!prepend(walk, {tree.root.data(), parent})) return failed(ENAMETOOLONG);
  return {.where = Where::kElsewhere, .path = walk.rest + walk.rest_begin};
}

// Replaces the link at the end of `current` by its target. kOutside: go on.
Place follow_link(const Catalogued& tree, const CatalogueEntry& link, Walk& walk) {
  const std::string_view target = tree.catalogue.link_target(link);
  if (target.empty()) return failed(ENOENT);
  if (!prepend(walk, target)) return failed(ENAMETOOLONG);
  if (target[0] != '/') {
    drop_component(walk);
    return {};
  }
  const std::string_view below = below_root(tree.root, rest_of(walk));
  if (below.data() == nullptr) {
    return {.where = Where::kElsewhere, .path = walk.rest + walk.rest_begin};
  }
  walk.rest_begin = static_cast<size_t>(below.data() - walk.rest);
  walk.current_size = 0;
  return {};
}

}  // namespace

std::string_view below_root(std::string_view root, std::string_view path) {
  if (path.size() < root.size()) return {};
  if (std::memcmp(path.data(), root.data(), root.size()) != 0) return {};
  if (path.size() > root.size() && path[root.size()] != '/') return {};
  return {path.data() + root.size(), path.size() - root.size()};
}

size_t write_path(const CatalogueView& catalogue, uint32_t entry, char* out, size_t room) {
  size_t begin = room;  // from the end; names come from the last to the first
  while (entry != wire::kRootEntry && entry < catalogue.entry_count()) {
    const CatalogueEntry at = catalogue.entry(entry);
    const std::string_view name = catalogue.name(at);
    if (name.empty() || name.size() + 2 > begin) return room;
    if (begin < room) out[--begin] = '/';
    begin -= name.size();
    std::memcpy(out + begin, name.data(), name.size());
    entry = at.parent;
  }
  std::memmove(out, out + begin, room - begin);
  return room - begin;
}

uint32_t find_plain(const CatalogueView& catalogue, std::string_view relative, Last last) {
  while (!relative.empty() && relative[0] == '/') relative.remove_prefix(1);
  // A component that is empty or begins with a dot needs the walk.
  bool at_begin = true;
  for (const char letter : relative) {
    if (at_begin && (letter == '/' || letter == '.')) return wire::kNoEntry;
    at_begin = letter == '/';
  }
  if (at_begin && !relative.empty()) return wire::kNoEntry;
  const uint32_t entry = catalogue.find(relative);
  if (entry == wire::kNoEntry || last == Last::kKeepLink) return entry;
  return catalogue.entry(entry).kind == EntryKind::kLink ? wire::kNoEntry : entry;
}

Place walk_path(const Catalogued& tree, uint32_t base, std::string_view relative, Last last,
                Walk& walk) {
  walk.rest_begin = sizeof(walk.rest) - 1;
  walk.rest[walk.rest_begin] = '\0';
  walk.current_size = write_path(tree.catalogue, base, walk.current, sizeof(walk.current));
  if (relative.size() >= kPathBytes || walk.current_size >= sizeof(walk.current)) {
    return failed(ENAMETOOLONG);
  }
  prepend(walk, relative);
  int links = 0;
  for (;;) {
    const std::string_view name = take_component(walk);
    if (name.empty()) break;
    if (name == ".") continue;
    if (name == "..") {
      if (walk.current_size == 0) return links > 0 ? failed(ENOENT) : leave_root(tree, walk);
      drop_component(walk);
      continue;
    }
    if (const int error = add_component(walk, name); error != 0) return failed(error);
    const bool has_slash = walk.rest[walk.rest_begin] == '/';
    const uint32_t found = tree.catalogue.find({walk.current, walk.current_size});
    if (found == wire::kNoEntry) {
      skip_slashes(walk);
      return failed(ENOENT, rest_of(walk).empty());
    }
    const CatalogueEntry entry = tree.catalogue.entry(found);
    if (entry.kind == EntryKind::kFile && has_slash) return failed(ENOTDIR);
    if (entry.kind != EntryKind::kLink) continue;
    if (!has_slash && last == Last::kKeepLink) {
      return {.where = Where::kInside, .entry = found};
    }
    if (++links > kLinksMax) return failed(ELOOP);
    const Place place = follow_link(tree, entry, walk);
    if (place.where != Where::kOutside) return place;
  }
  return {.where = Where::kInside, .entry = tree.catalogue.find({walk.current, walk.current_size})};
}

}  // namespace millrace::store
