#include "store/preload/resolve.h"

#include <errno.h>

#include <cstring>

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::CatalogueView;
using wire::EntryKind;

constexpr size_t kNameBytesMax = 255;

Place failed(int error, bool is_new = false) {
  return {.where = Where::kFailed, .is_new = is_new, .error = error};
}

// Goes on with the target of the link at the end of `current`, which is in front of the rest.
// kOutside: go on.
Place enter_target(const Catalogued& tree, Walk& walk) {
  if (walk.rest[walk.rest_begin] != '/') {
    walk.drop_component();
    return {};
  }
  const std::string_view below = below_root(tree.root, walk.left());
  if (below.data() == nullptr) {
    return {.where = Where::kElsewhere, .path = walk.rest + walk.rest_begin};
  }
  walk.rest_begin = static_cast<size_t>(below.data() - walk.rest);
  walk.current_size = 0;
  return {};
}

// `..` at the root: the rest belongs to the directory above. kOutside: go on.
Place leave_root(const Catalogued& tree, Walk& walk) {
  size_t parent = tree.root.size();
  while (parent > 0 && tree.root[parent - 1] != '/') --parent;  // with its slash
  walk.skip_slashes();
  if (!walk.prepend({tree.root.data(), parent})) return failed(ENAMETOOLONG);
  return enter_target(tree, walk);
}

Place follow_link(const Catalogued& tree, const CatalogueEntry& link, Walk& walk) {
  const std::string_view target = tree.catalogue.link_target(link);
  if (target.empty()) return failed(ENOENT);
  if (!walk.prepend(target)) return failed(ENAMETOOLONG);
  return enter_target(tree, walk);
}

// A name that the catalogue lacks: the one in the upper directory.
Place created_place(const Catalogued& tree, Walk& walk, bool has_slash, bool is_missing) {
  std::string_view above = walk.done();
  uint32_t directory = wire::kNoEntry;
  while (directory == wire::kNoEntry && !above.empty()) {
    while (!above.empty() && above.back() != '/') above.remove_suffix(1);
    if (!above.empty()) above.remove_suffix(1);
    directory = tree.catalogue.find(above);
  }
  Place place = failed(ENOENT, is_missing);
  if (tree.upper.directory.empty()) return place;
  place.is_created = true;
  place.entry = directory;
  place.relative = walk.done();
  const auto find_buffered = tree.upper.find_buffered;
  if (find_buffered != nullptr && !is_missing &&
      find_buffered(walk.done(), walk.rest, sizeof(walk.rest))) {
    if (has_slash) return failed(ENOTDIR);
    place.where = Where::kElsewhere;
    place.is_buffered = true;
    place.path = walk.rest;
    return place;
  }
  walk.rest_begin = sizeof(walk.rest) - 1;
  if ((has_slash && !walk.prepend("/")) || !walk.prepend(walk.done()) || !walk.prepend("/") ||
      !walk.prepend(tree.upper.directory)) {
    return failed(ENAMETOOLONG);
  }
  place.path = walk.rest + walk.rest_begin;
  if (!is_missing) place.where = Where::kElsewhere;
  return place;
}

bool keeps_link(Last last, bool has_slash) {
  return last == Last::kName || (last == Last::kKeepLink && !has_slash);
}

// For "." and "..": whether `current` is a directory. 0, or an errno value.
int check_directory(const Catalogued& tree, Walk& walk) {
  if (tree.catalogue.find(walk.done()) != wire::kNoEntry) return 0;  // it was compared already
  if (tree.upper.directory.empty()) return ENOENT;  // only if the catalogue is damaged
  if (const int error = walk.add_component("."); error != 0) return error;
  const long size = tree.upper.read_link(walk.done(), walk.rest, walk.rest_begin);
  walk.drop_component();
  return size == -EINVAL ? 0 : static_cast<int>(-size);
}

// A component that the catalogue lacks. kOutside: go on; it is in `current`, or its target is in
// the rest.
Place pass_created(const Catalogued& tree, Last last, bool has_slash, int& links, Walk& walk) {
  walk.skip_slashes();
  const bool is_last = walk.left().empty();
  if (tree.upper.directory.empty()) {
    return is_last ? created_place(tree, walk, has_slash, true) : failed(ENOENT);
  }
  // Into the room before the rest.
  const long size = tree.upper.read_link(walk.done(), walk.rest, walk.rest_begin);
  if (size == -ENOENT && is_last) return created_place(tree, walk, has_slash, true);
  const bool is_kept = is_last && keeps_link(last, has_slash);
  if (size == -EINVAL || (size > 0 && is_kept)) {
    if (is_last) return created_place(tree, walk, has_slash, false);
    const auto find = tree.upper.find_buffered;  // into the room before the rest
    const bool is_file = find != nullptr && find(walk.done(), walk.rest, walk.rest_begin);
    return is_file ? failed(ENOTDIR) : Place{};
  }
  if (size <= 0) return failed(size == 0 ? ENOENT : static_cast<int>(-size));
  if (++links > kLinksMax) return failed(ELOOP);
  if (static_cast<size_t>(size) + 1 >= walk.rest_begin) return failed(ENAMETOOLONG);
  if (has_slash) walk.prepend("/");
  walk.rest_begin -= static_cast<size_t>(size);
  std::memmove(walk.rest + walk.rest_begin, walk.rest, static_cast<size_t>(size));
  return enter_target(tree, walk);
}

}  // namespace

void Walk::start(std::string_view text) {
  rest_begin = sizeof(rest) - 1;
  rest[rest_begin] = '\0';
  prepend(text);
}

std::string_view Walk::take_component() {
  skip_slashes();
  const std::string_view text = left();
  const void* slash = std::memchr(text.data(), '/', text.size());
  const size_t size = slash == nullptr
                          ? text.size()
                          : static_cast<size_t>(static_cast<const char*>(slash) - text.data());
  rest_begin += size;
  return {text.data(), size};
}

void Walk::skip_slashes() {
  while (rest[rest_begin] == '/') ++rest_begin;
}

int Walk::add_component(std::string_view name) {
  if (name.size() > kNameBytesMax) return ENAMETOOLONG;
  if (current_size + 1 + name.size() >= sizeof(current)) return ENAMETOOLONG;
  if (current_size > 0) current[current_size++] = '/';
  std::memcpy(current + current_size, name.data(), name.size());
  current_size += name.size();
  return 0;
}

void Walk::drop_component() {
  while (current_size > 0 && current[current_size - 1] != '/') --current_size;
  if (current_size > 0) --current_size;
}

bool Walk::prepend(std::string_view text) {
  if (text.size() > rest_begin) return false;
  rest_begin -= text.size();
  std::memcpy(rest + rest_begin, text.data(), text.size());
  return true;
}

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
  // A path with empty components or dots is not found: no entry has such a name.
  const uint32_t entry = catalogue.find(relative);
  if (entry == wire::kNoEntry || last != Last::kFollow) return entry;
  return catalogue.entry(entry).kind == EntryKind::kLink ? wire::kNoEntry : entry;
}

Place walk_path(const Catalogued& tree, uint32_t base, std::string_view relative, Last last,
                Walk& walk) {
  walk.current_size = write_path(tree.catalogue, base, walk.current, sizeof(walk.current));
  if (relative.size() >= kPathBytes || walk.current_size >= sizeof(walk.current)) {
    return failed(ENAMETOOLONG);
  }
  walk.start(relative);
  int links = 0;
  for (;;) {
    const std::string_view name = walk.take_component();
    if (name.empty()) break;
    if (name == "." || name == "..") {
      if (const int error = check_directory(tree, walk); error != 0) return failed(error);
      if (name == ".") continue;
      if (walk.current_size == 0) {
        const Place place = leave_root(tree, walk);
        if (place.where != Where::kOutside) return place;
        continue;
      }
      walk.drop_component();
      continue;
    }
    if (const int error = walk.add_component(name); error != 0) return failed(error);
    const bool has_slash = walk.rest[walk.rest_begin] == '/';
    const uint32_t found = tree.catalogue.find(walk.done());
    if (found == wire::kNoEntry) {
      const Place place = pass_created(tree, last, has_slash, links, walk);
      if (place.where != Where::kOutside) return place;
      continue;
    }
    const CatalogueEntry entry = tree.catalogue.entry(found);
    if (entry.kind == EntryKind::kFile && has_slash) return failed(ENOTDIR);
    if (entry.kind != EntryKind::kLink) continue;
    walk.skip_slashes();
    if (walk.left().empty() && keeps_link(last, has_slash)) {
      return {.where = Where::kInside, .entry = found};
    }
    if (++links > kLinksMax) return failed(ELOOP);
    if (has_slash) walk.prepend("/");
    const Place place = follow_link(tree, entry, walk);
    if (place.where != Where::kOutside) return place;
  }
  const uint32_t entry = tree.catalogue.find(walk.done());
  if (entry == wire::kNoEntry) return created_place(tree, walk, false, false);
  return {.where = Where::kInside, .entry = entry};
}

}  // namespace millrace::store
