// fts_open and its family below the root, by our own functions. Those of the C library do not call
// hooks, and would read the directories of the tree, which lack the files that nobody has read yet.
//
// The working directory is never changed, as with FTS_NOCHDIR. FTS_SEEDOT is ignored. If no
// starting point is below the root, the C library does the walk.
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "hook/syscall.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

constexpr int kOurs = 1 << 30;     // in fts_options: the stream is one of ours
constexpr int kNoInstruction = 3;  // FTS_NOINSTR, which the header hides in some versions
constexpr size_t kStreamPathBytes = 2 * kPathBytes;

// A file of a walk. Its name follows, and behind that the path of a starting point.
struct Node {
  const char* start;  // of a starting point: its path
  struct stat status;
  FTSENT shown;
};

Node* node_of(FTSENT* shown) {
  return reinterpret_cast<Node*>(reinterpret_cast<char*>(shown) - offsetof(Node, shown));
}

// The files of a directory, in memory of their own: first a list of pointers to them.
struct Block {
  Block* below;
  size_t size_bytes;
};

struct FtsStream {
  FTS shown;
  Block* top;  // the block of the files that are read now
  FTSENT* first;
  bool is_built;  // the block of the current directory's children is on top
  bool has_ended;
  char path[kStreamPathBytes];
  Node above;  // the parent of the starting points
};

FtsStream* fts_stream_of(FTS* stream) { return reinterpret_cast<FtsStream*>(stream); }
bool is_ours(const FTS* stream) { return !is_bad(stream) && (stream->fts_options & kOurs) != 0; }

void* map_memory(size_t size_bytes) {
  return hook::sys_mmap(size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

size_t node_bytes(size_t name_size, size_t start_size) {
  const size_t size =
      offsetof(Node, shown) + offsetof(FTSENT, fts_name) + name_size + 1 + start_size + 1;
  const size_t least = size < sizeof(Node) ? sizeof(Node) : size;
  return (least + 15) & ~size_t{15};
}

void drop_block(FtsStream& stream) {
  Block* block = stream.top;
  stream.top = block->below;
  hook::sys_munmap(block, block->size_bytes);
}

// Fills in what the file is. `path` leads there from an open directory.
void classify(Node& node, int directory, const char* path, bool follows) {
  FTSENT& shown = node.shown;
  struct stat& status = node.status;
  bool exists = follows && fstatat(directory, path, &status, 0) == 0;
  if (!exists) {
    exists = fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
    shown.fts_errno = exists ? 0 : errno;
  }
  shown.fts_info = !exists                    ? FTS_NS
                   : S_ISDIR(status.st_mode)  ? FTS_D
                   : S_ISREG(status.st_mode)  ? FTS_F
                   : !S_ISLNK(status.st_mode) ? FTS_DEFAULT
                   : follows                  ? FTS_SLNONE
                                              : FTS_SL;
  shown.fts_ino = status.st_ino;
  shown.fts_dev = status.st_dev;
  shown.fts_nlink = status.st_nlink;
  if (shown.fts_info != FTS_D) return;
  for (FTSENT* at = shown.fts_parent; at->fts_level >= FTS_ROOTLEVEL; at = at->fts_parent) {
    if (at->fts_ino != shown.fts_ino || at->fts_dev != shown.fts_dev) continue;
    shown.fts_info = FTS_DC;  // it is above itself
    shown.fts_cycle = at;
    return;
  }
}

// A new node in the memory at `at`.
Node* make_node(char* at, std::string_view name, std::string_view start, FTSENT* parent) {
  Node* node = new (at) Node{};
  char* text = at + offsetof(Node, shown) + offsetof(FTSENT, fts_name);
  memcpy(text, name.data(), name.size());
  if (!start.empty()) {
    char* copy = text + name.size() + 1;
    memcpy(copy, start.data(), start.size());
    node->start = copy;
  }
  FTSENT& shown = node->shown;
  shown.fts_parent = parent;
  shown.fts_level = static_cast<short>(parent->fts_level + 1);
  shown.fts_namelen = static_cast<unsigned short>(name.size());
  shown.fts_statp = &node->status;
  shown.fts_instr = kNoInstruction;
  return node;
}

// Links the nodes in the order of the caller's function. Returns the first.
FTSENT* link_nodes(const FtsStream& stream, FTSENT** nodes, size_t count) {
  using Compare = int (*)(const void*, const void*);
  static constinit Real<void(void*, size_t, size_t, Compare)> sort{"qsort"};
  const Compare compare = stream.shown.fts_compar;
  if (compare != nullptr) sort(nodes, count, sizeof(*nodes), compare);
  for (size_t i = 0; i < count; ++i) nodes[i]->fts_link = i + 1 < count ? nodes[i + 1] : nullptr;
  return count == 0 ? nullptr : nodes[0];
}

// Where the nodes of a new block go. Null pointers if memory is refused.
struct Room {
  FTSENT** list;
  char* nodes;
};

Room add_block(FtsStream& stream, size_t count, size_t nodes_bytes) {
  const size_t list_bytes = (count * sizeof(FTSENT*) + 15) & ~size_t{15};
  const size_t size_bytes = sizeof(Block) + list_bytes + nodes_bytes;
  static_assert(sizeof(Block) % 16 == 0);
  auto* memory = static_cast<char*>(map_memory(size_bytes));
  if (memory == nullptr) return {};
  stream.top = new (memory) Block{stream.top, size_bytes};
  return {reinterpret_cast<FTSENT**>(memory + sizeof(Block)), memory + sizeof(Block) + list_bytes};
}

const char* next_name(DIR* directory) {
  for (;;) {
    const struct dirent64* entry = readdir64(directory);
    if (entry == nullptr) return nullptr;
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) return entry->d_name;
  }
}

// The children of a directory, on top. Null with errno if there are none or memory is refused.
// REQUIRES: it is the current one.
FTSENT* build_children(FtsStream& stream, FTSENT* parent) {
  DIR* directory = opendir(stream.path);
  if (directory == nullptr) {
    parent->fts_info = FTS_DNR;
    parent->fts_errno = errno;
    return failure<FTSENT*>(0);
  }
  size_t count = 0;
  size_t size_bytes = 0;
  for (const char* name; (name = next_name(directory)) != nullptr; ++count) {
    size_bytes += node_bytes(strlen(name), 0);
  }
  rewinddir(directory);
  const Room room = count == 0 ? Room{} : add_block(stream, count, size_bytes);
  size_t made = 0;
  char* at = room.nodes;
  // Names that have appeared since are left out.
  for (const char* name;
       made < count && room.list != nullptr && (name = next_name(directory)) != nullptr;) {
    const size_t size = node_bytes(strlen(name), 0);
    if (at + size > room.nodes + size_bytes) break;
    Node* node = make_node(at, name, {}, parent);
    classify(*node, dirfd(directory), node->shown.fts_name,
             (stream.shown.fts_options & FTS_LOGICAL) != 0);
    room.list[made++] = &node->shown;
    at += size;
  }
  closedir(directory);
  if (made > 0) {
    stream.is_built = true;
    return link_nodes(stream, room.list, made);
  }
  if (room.list != nullptr) drop_block(stream);
  return failure<FTSENT*>(count > 0 && room.list == nullptr ? ENOMEM : 0);
}

std::string_view last_component(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  size_t begin = path.size();
  while (begin > 0 && path[begin - 1] != '/') --begin;
  return begin == path.size() ? path : std::string_view{path.data() + begin, path.size() - begin};
}

// The starting points. False if memory is refused.
bool build_starts(FtsStream& stream, char* const* paths, size_t count) {
  size_t size_bytes = 0;
  for (size_t i = 0; i < count; ++i) size_bytes += node_bytes(strlen(paths[i]), strlen(paths[i]));
  const Room room = add_block(stream, count, size_bytes);
  if (room.list == nullptr) return false;
  char* at = room.nodes;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view path = paths[i];
    Node* node = make_node(at, last_component(path), path, &stream.above.shown);
    classify(*node, AT_FDCWD, paths[i],
             (stream.shown.fts_options & (FTS_LOGICAL | FTS_COMFOLLOW)) != 0);
    room.list[i] = &node->shown;
    at += node_bytes(path.size(), path.size());
  }
  stream.first = link_nodes(stream, room.list, count);
  return true;
}

// Makes a node the current one, with its path.
FTSENT* show(FtsStream& stream, FTSENT* shown) {
  const char* start = node_of(shown)->start;
  size_t size = start == nullptr ? shown->fts_parent->fts_pathlen : 0;
  const std::string_view added =
      start == nullptr ? std::string_view{shown->fts_name, shown->fts_namelen} : start;
  if (size + added.size() + 2 > sizeof(stream.path)) return failure<FTSENT*>(ENAMETOOLONG);
  if (size > 0 && stream.path[size - 1] != '/') stream.path[size++] = '/';
  memcpy(stream.path + size, added.data(), added.size());
  size += added.size();
  stream.path[size] = '\0';
  shown->fts_pathlen = static_cast<unsigned short>(size);
  shown->fts_path = stream.path;
  shown->fts_accpath = stream.path;
  stream.shown.fts_cur = shown;
  return shown;
}

// The second visit of a directory.
FTSENT* show_again(FtsStream& stream, FTSENT* shown) {
  stream.path[shown->fts_pathlen] = '\0';
  if (shown->fts_info == FTS_D) shown->fts_info = FTS_DP;
  stream.shown.fts_cur = shown;
  return shown;
}

FTSENT* after(FtsStream& stream, FTSENT* current) {
  FTSENT* next = current->fts_link;
  while (next != nullptr && next->fts_instr == FTS_SKIP) next = next->fts_link;
  if (next != nullptr) {
    const bool follows = next->fts_instr == FTS_FOLLOW;
    if (follows) next->fts_instr = kNoInstruction;
    if (show(stream, next) == nullptr) return nullptr;
    if (follows) classify(*node_of(next), AT_FDCWD, stream.path, true);
    return next;
  }
  FTSENT* parent = current->fts_parent;
  if (parent->fts_level < FTS_ROOTLEVEL) {
    stream.has_ended = true;
    return failure<FTSENT*>(0);
  }
  drop_block(stream);
  return show_again(stream, parent);
}

// Whether FTS_XDEV forbids to enter a directory.
bool is_on_other_device(const FtsStream& stream, const FTSENT* directory) {
  if ((stream.shown.fts_options & FTS_XDEV) == 0) return false;
  const FTSENT* start = directory;
  while (start->fts_level > FTS_ROOTLEVEL) start = start->fts_parent;
  return start->fts_dev != directory->fts_dev;
}

FTSENT* read_next(FtsStream& stream) {
  if (stream.has_ended) return failure<FTSENT*>(0);
  FTSENT* current = stream.shown.fts_cur;
  if (current == nullptr) return show(stream, stream.first);
  const int instruction = current->fts_instr;
  current->fts_instr = kNoInstruction;
  if (instruction == FTS_AGAIN || (instruction == FTS_FOLLOW && current->fts_info == FTS_SL)) {
    const bool follows = instruction == FTS_FOLLOW || (stream.shown.fts_options & FTS_LOGICAL) != 0;
    classify(*node_of(current), AT_FDCWD, stream.path, follows);
    return current;
  }
  if (current->fts_info != FTS_D) return after(stream, current);
  if (instruction == FTS_SKIP || is_on_other_device(stream, current)) {
    if (stream.is_built) drop_block(stream);
    stream.is_built = false;
    return show_again(stream, current);
  }
  FTSENT* child = stream.is_built ? stream.shown.fts_child : build_children(stream, current);
  stream.is_built = false;
  if (child == nullptr && errno != 0) return nullptr;
  if (child == nullptr) {  // as the C library does, for a starting point with a slash at its end
    const size_t size = current->fts_pathlen;
    if (size > 1 && stream.path[size - 1] == '/') --current->fts_pathlen;
    return show_again(stream, current);
  }
  return show(stream, child);
}

// Whether one of the starting points is below the root.
bool is_in_store(char* const* paths, size_t& count) {
  bool is_below = false;
  for (count = 0; paths[count] != nullptr; ++count) {
    Lookup lookup;
    const Place place = lookup.find(AT_FDCWD, paths[count], Last::kKeepLink);
    is_below = is_below || place.where != Where::kOutside;
    if (strlen(paths[count]) >= kPathBytes) return false;
  }
  return is_below;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

FTS* fts_open(char* const* paths, int options, int (*compare)(const FTSENT**, const FTSENT**)) {
  size_t count = 0;
  if (!active() || is_bad(paths) || !is_in_store(paths, count))
    return real_call<fts_open>(paths, options, compare);
  if ((options & ~FTS_OPTIONMASK) != 0) return failure<FTS*>(EINVAL);
  void* memory = map_memory(sizeof(FtsStream));
  if (memory == nullptr) return failure<FTS*>(ENOMEM);
  auto* stream = static_cast<FtsStream*>(memory);  // all zeros
  stream->shown.fts_options = options | kOurs;
  stream->shown.fts_compar = reinterpret_cast<int (*)(const void*, const void*)>(compare);
  stream->shown.fts_path = stream->path;
  stream->above.shown.fts_level = FTS_ROOTPARENTLEVEL;
  if (build_starts(*stream, paths, count)) return &stream->shown;
  millrace::hook::sys_munmap(memory, sizeof(FtsStream));
  return failure<FTS*>(ENOMEM);
}

FTSENT* fts_read(FTS* stream) {
  return is_ours(stream) ? read_next(*fts_stream_of(stream)) : real_call<fts_read>(stream);
}

FTSENT* fts_children(FTS* stream, int instruction) {
  if (!is_ours(stream)) return real_call<fts_children>(stream, instruction);
  FtsStream& own = *fts_stream_of(stream);
  FTSENT* current = stream->fts_cur;
  if (current == nullptr) return own.first;
  if (own.has_ended || current->fts_info != FTS_D) return failure<FTSENT*>(0);
  if (!own.is_built) stream->fts_child = build_children(own, current);
  return stream->fts_child;
}

int fts_set(FTS* stream, FTSENT* node, int instruction) {
  if (!is_ours(stream)) return real_call<fts_set>(stream, node, instruction);
  node->fts_instr = static_cast<unsigned short>(instruction == 0 ? kNoInstruction : instruction);
  return 0;
}

int fts_close(FTS* stream) {
  if (!is_ours(stream)) return real_call<fts_close>(stream);
  FtsStream& own = *fts_stream_of(stream);
  while (own.top != nullptr) drop_block(own);
  millrace::hook::sys_munmap(stream, sizeof(FtsStream));
  return 0;
}

}  // extern "C"

asm(R"(
  also fts64_open, fts_open
  also fts64_read, fts_read
  also fts64_children, fts_children
  also fts64_set, fts_set
  also fts64_close, fts_close
)");
