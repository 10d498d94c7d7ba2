#include "store/preload/lookup.h"

#include <fcntl.h>

#include <cstring>

#include "hook/arena.h"
#include "hook/path.h"
#include "hook/syscall.h"
#include "store/preload/fast.h"
#include "store/preload/text.h"

namespace millrace::store {
namespace {

// What is known about a descriptor or the working directory.
enum Known : uint32_t {
  kUnknown = 0,
  kFar = 1,      // not below the root
  kNear = 2,     // the root is below it
  kWritten = 3,  // below the root, and not in the catalogue
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
  const std::string_view below = below_root(client.tree, name);
  if (below.data() != nullptr) {
    const size_t slash = below.empty() ? 0 : 1;
    const uint32_t entry = client.catalogue.find({below.data() + slash, below.size() - slash});
    return entry == wire::kNoEntry ? kWritten : kFirst + entry;
  }
  const bool is_above = name == "/" || below_root(name, client.root).data() != nullptr ||
                        below_root(name, client.real_root).data() != nullptr;
  return is_above ? kNear : kFar;
}

// The name of a descriptor or of the working directory. 0 if it has none.
size_t name_of(int directory, char* out, size_t room) {
  long size = 0;
  if (directory == AT_FDCWD) {
    size = hook::sys_getcwd(out, room) - 1;  // with the zero
  } else {
    char link[40];
    Text(link, sizeof(link)).add("/proc/self/fd/").add(static_cast<uint64_t>(directory));
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

// "/proc/self/fd/7", "/dev/fd/7" and "/dev/stdin" mean what the kernel has under that number.
void make_named_descriptor_real(std::string_view path) {
  constexpr std::string_view kDirectories[] = {"/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"};
  if (fast_files.count() == 0) return;
  std::string_view number = path == "/dev/stdin" ? "0" : "";
  for (const std::string_view directory : kDirectories) {
    const std::string_view below = below_root(directory, path);
    if (below.size() > 1) number = {below.data() + 1, below.size() - 1};
  }
  int fd = 0;
  for (const char digit : number) {
    if (digit < '0' || digit > '9' || fd > 100'000'000) return;
    fd = fd * 10 + (digit - '0');
  }
  const int saved_errno = errno;
  if (!number.empty()) make_real(fd);
  errno = saved_errno;
}

bool has_dots(const char* path) { return std::strstr(path, "..") != nullptr; }

}  // namespace

uint32_t entry_of(int fd) {
  if (!active()) return wire::kNoEntry;
  const uint32_t known = known_descriptor(fd);
  return known >= kFirst ? known - kFirst : wire::kNoEntry;
}

uint32_t entry_of(int fd, const RealAttributes& real) {
  const bool in_tree = real.device == client.tree_device;
  if (!in_tree && real.device != client.origin_device.load(std::memory_order_relaxed)) {
    return wire::kNoEntry;
  }
  const uint32_t known = known_descriptor(fd);
  if (known >= kFirst && is_real_file(client.catalogue.entry(known - kFirst), real)) {
    return known - kFirst;
  }
  if (!in_tree) return wire::kNoEntry;
  // Something closed or replaced the descriptor without a hook.
  const uint32_t now = classify_now(fd);
  if (now < kFirst) return wire::kNoEntry;
  note_opened(fd, now - kFirst);
  return now - kFirst;
}

void note_opened(int fd, uint32_t entry) {
  if (fd < 0 || in_vfork_child) return;
  std::atomic<uint32_t>* cached = descriptors.at(place_of(fd));
  if (cached != nullptr) cached->store(kFirst + entry, std::memory_order_relaxed);
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

bool is_in_written_directory() { return known_working_directory() == kWritten; }

bool is_in_written_directory(int fd) { return active() && known_descriptor(fd) == kWritten; }

uint32_t working_directory_entry() {
  const uint32_t known = known_working_directory();
  return known >= kFirst ? known - kFirst : wire::kNoEntry;
}

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
  if (!has_walk()) return {.where = Where::kFailed, .error = ENOMEM};
  return walk_path(client.catalogued(), base, relative, last, *walk_);
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
  hook::normalise_path({name->text, size}, path, *joined);
  // A slash at the end asks for a directory.
  if (path.back() == '/' && joined->size + 1 < sizeof(joined->text)) {
    joined->text[joined->size++] = '/';
  }
  const std::string_view below = client.below(joined->view());
  if (below.data() == nullptr) return {};
  return find_below(wire::kRootEntry, below, last);
}

// A path relative to a directory that a program has created.
Place Lookup::find_in_written(int directory, std::string_view path, Last last) {
  const hook::Scratch<RealPath> joined;
  if (!joined) return {.where = Where::kFailed, .error = ENOMEM};
  const size_t size = name_of(directory, joined->text, kPathBytes);
  const std::string_view below = client.below_tree({joined->text, size});
  if (below.data() == nullptr) return {};  // it was moved, or replaced without a hook
  if (size + 1 + path.size() >= sizeof(joined->text)) {
    return {.where = Where::kFailed, .error = ENAMETOOLONG};
  }
  joined->text[size] = '/';
  std::memcpy(joined->text + size + 1, path.data(), path.size());
  return find_below(wire::kRootEntry, {below.data(), below.size() + 1 + path.size()}, last);
}

Place Lookup::find(int directory, const char* path, Last last) {
  if (!active() || is_bad(path) || *path == '\0') return {};
  if (*path == '/') {
    const std::string_view whole = path;
    const std::string_view below = client.below(whole);
    if (below.data() != nullptr) return find_below(wire::kRootEntry, below, last);
    make_named_descriptor_real(whole);
    return is_normal(whole) ? Place{} : find_joined(directory, whole, last);
  }
  const uint32_t base =
      directory == AT_FDCWD ? known_working_directory() : known_descriptor(directory);
  if (base >= kFirst) {
    const uint32_t entry = base - kFirst;
    if (client.catalogue.entry(entry).kind != wire::EntryKind::kDirectory) {
      return {.where = Where::kFailed, .error = ENOTDIR};
    }
    return find_below(entry, path, last);
  }
  if (base == kWritten) return find_in_written(directory, path, last);
  if (base == kNear || has_dots(path)) return find_joined(directory, path, last);
  return {};
}

Place Lookup::find_linked(int directory, const char* path, Last last) {
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
    Text text(name->text, sizeof(name->text));
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
