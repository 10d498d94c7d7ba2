#include "store/preload/lookup.h"

#include <fcntl.h>

#include <cstring>

#include "hook/arena.h"
#include "hook/path.h"
#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/fast.h"

namespace millrace::store {
namespace {

// What is known about a descriptor or the working directory.
enum Known : uint32_t {
  kUnknown = 0,
  kFar = 1,      // not below the root
  kNear = 2,     // the root is below it
  kCreated = 3,  // in the upper directory, and not in the catalogue
  kFirst = 4,    // + entry
};

using Cache = hook::Arena<std::atomic<uint32_t>, 4096, 4096>;
constinit Cache descriptors;  // by place_of(fd)

// Neighbouring numbers are often those of different threads, and get lines of memory of their own.
size_t place_of(int fd) {
  const auto number = static_cast<size_t>(fd);
  return (number & ~size_t{0xfff}) | (number & 0xf) << 8 | (number >> 4 & 0xff);
}
size_t number_at(size_t place) {
  return (place & ~size_t{0xfff}) | (place & 0xff) << 4 | (place >> 8 & 0xf);
}

constinit std::atomic<uint32_t> working_directory{kUnknown};

uint32_t classify(std::string_view name) {
  std::string_view below = below_root(client.tree, name);
  const bool is_upper = below.data() == nullptr;
  if (is_upper) below = client.below_upper(name);
  if (below.data() != nullptr) {
    const size_t slash = below.empty() ? 0 : 1;
    const uint32_t entry = client.catalogue.find({below.data() + slash, below.size() - slash});
    if (entry == wire::kNoEntry) return is_upper ? kCreated : kFar;
    // Elsewhere, a program that uses the upper directory by its own name means the files there.
    if (!is_upper || client.is_root_upper()) return kFirst + entry;
  }
  const bool is_above = name == "/" || below_root(name, client.root).data() != nullptr ||
                        below_root(name, client.real_root).data() != nullptr;
  return is_above ? kNear : kFar;
}

// What the kernel adds to the name of a directory that was removed.
constexpr std::string_view kRemoved = " (deleted)";

bool is_removed(std::string_view name) {
  return name.size() > kRemoved.size() &&
         std::string_view(name.data() + name.size() - kRemoved.size(), kRemoved.size()) == kRemoved;
}

// The name of a descriptor or of the working directory. 0 if it has none.
size_t name_of(int directory, char* out, size_t room) {
  long size = directory == AT_FDCWD ? hook::sys_getcwd(out, room) - 1 : 0;  // with the zero
  if (size <= 0) {
    char link[40];
    Text text(link);
    if (directory == AT_FDCWD) {
      text.add("/proc/self/cwd");
    } else {
      text.add("/proc/self/fd/").add(static_cast<uint64_t>(directory));
    }
    size = hook::sys_readlink(link, out, room);
  }
  return size > 0 && static_cast<size_t>(size) < room && out[0] == '/' ? static_cast<size_t>(size)
                                                                       : 0;
}

uint32_t classify_now(int directory) {
  const hook::Scratch<hook::ScratchText> name;
  if (!name) return kFar;
  const size_t size = name_of(directory, name->text, sizeof(name->text));
  return size == 0 ? uint32_t{kFar} : classify({name->text, size});
}

// A vfork child shares our memory, but not our working directory.
bool is_own_process() { return hook::sys_getpid() == client.pid.load(std::memory_order_relaxed); }

uint32_t known_working_directory() {
  uint32_t known = working_directory.load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  known = classify_now(AT_FDCWD);
  if (is_own_process()) working_directory.store(known, std::memory_order_relaxed);
  return known;
}

uint32_t known_descriptor(int fd) {
  if (fd < 0) return kFar;
  if (in_vfork_child) return classify_now(fd);
  if (FastFile file; fast_files.look(fd, file) == FastFiles::State::kOpen) {
    return kFirst + file.entry;
  }
  std::atomic<uint32_t>* cached = descriptors.at(place_of(fd));
  uint32_t known = cached == nullptr ? uint32_t{kUnknown} : cached->load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  known = classify_now(fd);
  if (cached != nullptr) cached->store(known, std::memory_order_relaxed);
  return known;
}

uint32_t known_directory(int directory) {
  return directory == AT_FDCWD ? known_working_directory() : known_descriptor(directory);
}

uint32_t entry_in(uint32_t known) { return known >= kFirst ? known - kFirst : wire::kNoEntry; }

Place failed(int error) { return {.where = Where::kFailed, .error = error}; }

// A slash at the end asks for a directory, and is kept.
void normalise(std::string_view directory, std::string_view path, hook::PathBuffer& out) {
  hook::normalise_path(directory, path, out);
  if (path.back() == '/' && out.size + 1 < sizeof(out.text)) out.text[out.size++] = '/';
}

bool is_real_file(const wire::CatalogueEntry& entry, const RealAttributes& real) {
  if ((wire::stat_mode(entry) & S_IFMT) != (real.mode & S_IFMT)) return false;
  if (entry.kind != wire::EntryKind::kFile) return true;
  return entry.size_bytes == real.size_bytes && entry.mtime_ns == real.mtime_ns;
}

// Whether an absolute path that does not begin with the root may still lead there.
bool is_normal(std::string_view path) {
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (path[i] == '/' && (path[i + 1] == '/' || path[i + 1] == '.')) return false;
  }
  return true;
}

bool has_dots(const char* path) { return std::strstr(path, "..") != nullptr; }

}  // namespace

uint32_t entry_of(int fd) {
  if (!active()) return wire::kNoEntry;
  return entry_in(known_descriptor(fd));
}

uint32_t entry_of(int fd, const RealAttributes& real) {
  const bool in_tree = real.device == client.tree_device;
  if (!in_tree && real.device != client.upper_device &&
      real.device != client.origin_device.load(std::memory_order_relaxed)) {
    return wire::kNoEntry;
  }
  const uint32_t known = entry_in(known_descriptor(fd));
  if (known != wire::kNoEntry && is_real_file(client.catalogue.entry(known), real)) return known;
  if (!in_tree) return wire::kNoEntry;
  // Something closed or replaced the descriptor without a hook.
  const uint32_t now = entry_in(classify_now(fd));
  if (now != wire::kNoEntry) note_opened(fd, now);
  return now;
}

void note_opened(int fd, uint32_t entry) {
  if (fd < 0 || in_vfork_child) return;
  std::atomic<uint32_t>* cached = descriptors.at(place_of(fd));
  if (cached != nullptr) cached->store(kFirst + entry, std::memory_order_relaxed);
}

void note_copied(int fd, int copy) {
  if (fd < 0 || copy < 0 || in_vfork_child) return;
  const std::atomic<uint32_t>* cached = descriptors.find(place_of(fd));
  const uint32_t known = cached == nullptr ? 0 : cached->load(std::memory_order_relaxed);
  if (known >= kFirst) note_opened(copy, known - kFirst);
}

void forget(int fd) {
  if (fd < 0 || in_vfork_child) return;
  std::atomic<uint32_t>* cached = descriptors.find(place_of(fd));
  if (cached != nullptr && cached->load(std::memory_order_relaxed) != kUnknown) {
    cached->store(kUnknown, std::memory_order_relaxed);
  }
}

void forget_range(unsigned first, unsigned last) {
  if (in_vfork_child) return;
  descriptors.for_each_chunk([&](std::atomic<uint32_t>* chunk, size_t begin) {
    for (size_t i = 0; i < 4096; ++i) {
      const size_t number = number_at(begin + i);
      if (number < first || number > last) continue;
      if (chunk[i].load(std::memory_order_relaxed) != kUnknown) {
        chunk[i].store(kUnknown, std::memory_order_relaxed);
      }
    }
  });
}

void forget_working_directory() { working_directory.store(kUnknown, std::memory_order_relaxed); }

bool is_created_directory(int directory) { return known_directory(directory) == kCreated; }

bool is_in_buffer(int fd) {
  if (!active() || !client.has_buffer() || fd < 0) return false;
  const hook::Scratch<hook::ScratchText> name;
  const size_t size = name ? name_of(fd, name->text, sizeof(name->text)) : 0;
  return below_root(client.buffer.directory, {name->text, size}).data() != nullptr;
}

uint32_t working_directory_entry() { return entry_in(known_working_directory()); }

Lookup::~Lookup() {
  if (walk_ != nullptr) hook::give_scratch(walk_);
}

bool Lookup::has_walk() {
  static_assert(sizeof(Walk) <= hook::kScratchBytes);
  if (walk_ == nullptr) walk_ = static_cast<Walk*>(hook::take_scratch());
  return walk_ != nullptr;
}

Place Lookup::find_below(uint32_t base, std::string_view relative, Last last) {
  if (base == wire::kRootEntry) {
    const uint32_t entry = find_plain(client.catalogue, relative, last);
    if (entry != wire::kNoEntry) return {.where = Where::kInside, .entry = entry};
  }
  if (!has_walk()) return failed(ENOMEM);
  const Place place = walk_path(client.catalogued(), base, relative, last, *walk_);
  return place.where == Where::kElsewhere && !place.is_created ? find_outside(place.path, last)
                                                               : place;
}

// A path has left the root. It may lead back: "ROOT/../ROOT/7.jpg", or by a link.
Place Lookup::find_outside(std::string_view left, Last last) {
  const hook::Scratch<hook::PathBuffer> normal;
  const hook::Scratch<RealPath> kept;
  if (!normal || !kept) return failed(ENOMEM);
  if (++excursions_ > kLinksMax) return failed(ELOOP);
  Text(kept->text).add(left);
  normalise("", left, *normal);
  const std::string_view below = client.below(normal->view());
  if (below.data() != nullptr) {
    return walk_path(client.catalogued(), wire::kRootEntry, below, last, *walk_);
  }
  const Place linked = follow_path(AT_FDCWD, kept->text, last);
  if (linked.where != Where::kOutside) return linked;
  walk_->start(kept->text);
  return {.where = Where::kElsewhere, .path = walk_->rest + walk_->rest_begin};
}

// Joins a path to the name of its directory, and looks whether that is below the root.
Place Lookup::find_joined(int directory, std::string_view path, Last last) {
  const hook::Scratch<hook::ScratchText> name;
  const hook::Scratch<hook::PathBuffer> joined;
  if (!name || !joined) return {};
  size_t size = 0;
  if (path[0] != '/') {
    size = name_of(directory, name->text, sizeof(name->text));
    if (size == 0) return {};
  }
  normalise({name->text, size}, path, *joined);
  const std::string_view below = client.below(joined->view());
  if (below.data() == nullptr) return {};
  return find_below(wire::kRootEntry, below, last);
}

// A path relative to a created directory that was removed. The kernel still knows what is above it.
Place Lookup::find_beside_removed(std::string_view below, std::string_view path, Last last) {
  const hook::Scratch<hook::PathBuffer> joined;
  if (!joined) return failed(ENOMEM);
  if (path.size() < 2 || path[0] != '.' || path[1] != '.') return {};  // the kernel finds nothing
  hook::normalise_path({below.data(), below.size() - kRemoved.size()}, path, *joined);
  return find_below(wire::kRootEntry, joined->view(), last);
}

// A path relative to a created directory.
Place Lookup::find_in_created(int directory, std::string_view path, Last last) {
  const hook::Scratch<RealPath> joined;
  if (!joined) return failed(ENOMEM);
  const size_t size = name_of(directory, joined->text, kPathBytes);
  const std::string_view below = client.below_upper({joined->text, size});
  if (below.data() == nullptr) return {};  // it was moved, or replaced without a hook
  if (is_removed(below)) return find_beside_removed(below, path, last);
  if (size + 1 + path.size() >= sizeof(joined->text)) return failed(ENAMETOOLONG);
  joined->text[size] = '/';
  std::memcpy(joined->text + size + 1, path.data(), path.size());
  return find_below(wire::kRootEntry, {below.data(), below.size() + 1 + path.size()}, last);
}

Place Lookup::find_in_process(const ProcName& name, Last last) {
  const uint32_t entry = entry_in(known_directory(name.directory));
  const int saved_errno = errno;
  if (name.directory != AT_FDCWD) make_real(name.directory);
  errno = saved_errno;
  if (entry == wire::kNoEntry || (name.rest.empty() && last != Last::kFollow)) return {};
  if (name.rest.empty()) return {.where = Where::kInside, .entry = entry};
  return find_in_entry(entry, name.rest, last);
}

Place Lookup::find_in_entry(uint32_t entry, std::string_view relative, Last last) {
  const bool is_directory = client.catalogue.entry(entry).kind == wire::EntryKind::kDirectory;
  return is_directory ? find_below(entry, relative, last) : failed(ENOTDIR);
}

Place Lookup::find(int directory, const char* path, Last last, bool is_linked) {
  directory_ = directory, path_ = path, last_ = last, is_linked_ = is_linked;
  return find_again();
}

Place Lookup::find_anywhere(int directory, const char* path, Last last) {
  const Place place = find(directory, path, last);
  return place.where == Where::kOutside ? find_linked(directory, path, last) : place;
}

Place Lookup::find_again() {
  return is_linked_ ? follow_path(directory_, path_, last_) : find_path(directory_, path_, last_);
}

Place Lookup::find_path(int directory, const char* path, Last last) {
  if (!active() || is_bad(path) || *path == '\0') return {};
  if (*path == '/') {
    const std::string_view whole = path;
    const std::string_view below = client.below(whole);
    if (below.data() != nullptr) return find_below(wire::kRootEntry, below, last);
    if (ProcName name; parse_proc_name(whole, name)) return find_in_process(name, last);
    return is_normal(whole) ? Place{} : find_joined(directory, whole, last);
  }
  const uint32_t base = known_directory(directory);
  if (base >= kFirst) return find_in_entry(base - kFirst, path, last);
  if (base == kCreated) return find_in_created(directory, path, last);
  if (base == kNear || has_dots(path)) return find_joined(directory, path, last);
  return {};
}

Place Lookup::follow_path(int directory, const char* path, Last last) {
  if (!active() || is_bad(path) || *path == '\0' || !has_walk()) return {};
  const std::string_view whole = path;
  if (whole.size() >= kPathBytes) return {};
  walk_->start(whole);
  if (*path != '/') {
    const hook::Scratch<hook::ScratchText> name;
    if (!name) return {};
    const size_t size = name_of(directory, name->text, sizeof(name->text));
    if (size == 0 || !walk_->prepend("/") || !walk_->prepend({name->text, size})) return {};
  }
  walk_->current_size = 0;
  return follow_links(last);
}

Place Lookup::follow_links(Last last) {
  Walk& walk = *walk_;
  const hook::Scratch<RealPath> name;  // what was taken so far, as an absolute path
  const hook::Scratch<hook::ScratchText> target;
  if (!name || !target) return {};
  for (int links = 0; links <= kLinksMax;) {
    const std::string_view component = walk.take_component();
    if (component.empty()) return {};
    if (component == ".") continue;
    if (component == "..") {
      walk.drop_component();
      continue;
    }
    if (walk.add_component(component) != 0) return {};
    Text text(name->text);
    text.add("/").add(walk.done());
    const size_t size_before = text.size();
    if (client.below({name->text, size_before}).data() != nullptr) {
      text.add(walk.left());
      return find_below(wire::kRootEntry, {name->text + size_before, text.size() - size_before},
                        last);
    }
    const long size = hook::sys_readlink(name->text, target->text, sizeof(target->text) - 1);
    if (size == -EINVAL) continue;  // not a link
    if (size <= 0 || !walk.prepend({target->text, static_cast<size_t>(size)})) return {};
    ++links;
    if (target->text[0] == '/') {
      walk.current_size = 0;
    } else {
      walk.drop_component();
    }
  }
  return {};
}

}  // namespace millrace::store
