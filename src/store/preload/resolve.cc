#include "store/preload/resolve.h"

#include <errno.h>

#include <cstring>

#include "wire/store_name.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::CatalogueView;
using wire::EntryKind;

constexpr size_t kNameBytesMax = 255;
constexpr int kFetchTries = 8;  // of a name that changes all the time

Place failed(int error, bool only_last_missing = false) {
  return {.where = Where::kFailed, .only_last_missing = only_last_missing, .error = error};
}

// `..` of the program at the root: the rest belongs to the directory above.
Place leave_root(const Catalogued& tree, Walk& walk) {
  size_t parent = tree.root.size();
  while (parent > 0 && tree.root[parent - 1] != '/') --parent;  // with its slash
  walk.skip_slashes();
  if (!walk.prepend({tree.root.data(), parent})) return failed(ENAMETOOLONG);
  return {.where = Where::kElsewhere, .path = walk.rest + walk.rest_begin};
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

Place follow_link(const Catalogued& tree, const CatalogueEntry& link, Walk& walk) {
  const std::string_view target = tree.catalogue.link_target(link);
  if (target.empty()) return failed(ENOENT);
  if (!walk.prepend(target)) return failed(ENAMETOOLONG);
  return enter_target(tree, walk);
}

// A name that the catalogue lacks: the real one in the tree of the node.
Place written_place(const Catalogued& tree, Walk& walk, bool has_slash, bool is_missing) {
  std::string_view above = walk.done();
  uint32_t directory = wire::kNoEntry;
  while (directory == wire::kNoEntry && !above.empty()) {
    while (!above.empty() && above.back() != '/') above.remove_suffix(1);
    if (!above.empty()) above.remove_suffix(1);
    directory = tree.catalogue.find(above);
  }
  Place place = failed(ENOENT, true);
  if (tree.written.tree.empty()) return place;
  walk.rest_begin = sizeof(walk.rest) - 1;
  if ((has_slash && !walk.prepend("/")) || !walk.prepend(walk.done()) || !walk.prepend("/") ||
      !walk.prepend(tree.written.tree)) {
    return failed(ENAMETOOLONG);
  }
  place.is_written = true;
  place.entry = directory;
  place.path = walk.rest + walk.rest_begin;
  if (!is_missing) place.where = Where::kElsewhere;
  return place;
}

// A component that the catalogue lacks. kOutside: go on; it is in `current`, or its target is in
// the rest.
Place pass_written(const Catalogued& tree, Last last, bool has_slash, int& links, Walk& walk) {
  walk.skip_slashes();
  const bool is_last = walk.left().empty();
  if (tree.written.read_link == nullptr) {
    return is_last ? written_place(tree, walk, has_slash, true) : failed(ENOENT);
  }
  if (is_last && !has_slash && last == Last::kKeepLink) {
    return written_place(tree, walk, has_slash, false);
  }
  // Into the room before the rest.
  long size = tree.written.read_link(walk.done(), walk.rest, walk.rest_begin);
  const auto target = [&] { return std::string_view(walk.rest, static_cast<size_t>(size)); };
  if (size > 0 && is_last && last == Last::kLook && wire::is_shown_target(target())) {
    return written_place(tree, walk, has_slash, false);
  }
  for (int tries = 0; size > 0 && wire::is_remote_target(target()); ++tries) {
    const bool can_fetch = tree.written.fetch != nullptr && tries < kFetchTries;
    const int error = can_fetch ? tree.written.fetch(walk.done(), target()) : EIO;
    if (error != 0 && error != ESTALE) return failed(error);
    size = tree.written.read_link(walk.done(), walk.rest, walk.rest_begin);
  }
  if (size == -EINVAL) {
    return is_last ? written_place(tree, walk, has_slash, false) : Place{};
  }
  if (size == -ENOENT && is_last) return written_place(tree, walk, has_slash, true);
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
  if (entry == wire::kNoEntry || last == Last::kKeepLink) return entry;
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
    if (name == ".") continue;
    if (name == "..") {
      if (walk.current_size == 0) return links > 0 ? failed(ENOENT) : leave_root(tree, walk);
      walk.drop_component();
      continue;
    }
    if (const int error = walk.add_component(name); error != 0) return failed(error);
    const bool has_slash = walk.rest[walk.rest_begin] == '/';
    const uint32_t found = tree.catalogue.find(walk.done());
    if (found == wire::kNoEntry) {
      const Place place = pass_written(tree, last, has_slash, links, walk);
      if (place.where != Where::kOutside) return place;
      continue;
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
  const uint32_t entry = tree.catalogue.find(walk.done());
  if (entry == wire::kNoEntry) return written_place(tree, walk, false, false);
  return {.where = Where::kInside, .entry = entry};
}

}  // namespace millrace::store
