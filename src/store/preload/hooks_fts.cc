// fts_open and its family below the root. The C library's own would read the directories of the
// tree, which lack the files that nobody has read yet.
//
// The working directory is never changed, as with FTS_NOCHDIR. FTS_SEEDOT is ignored, and a
// directory outside of the root, reached by a link, has no children. The names that programs have
// created follow those of the catalogue; FTS_AGAIN and FTS_FOLLOW change nothing for them. If the
// starting points are not all in the catalogue, the C library does the walk.
#include <dirent.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "hook/syscall.h"
#include "store/preload/attributes.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

constexpr int kOurs = 1 << 30;     // in fts_options: the stream is one of ours
constexpr int kNoInstruction = 3;  // FTS_NOINSTR, which the header hides in some versions
constexpr size_t kStreamPathBytes = 2 * kPathBytes;

// A file of a walk. Its name, and the path of a starting point, follow.
struct Node {
  uint32_t own;                 // entry; kNoEntry: a program has created it
  uint32_t entry;               // after following links; kNoEntry: outside
  const char* start = nullptr;  // of a starting point: its path
  struct stat status;
  FTSENT shown;
};

Node* node_of(FTSENT* shown) {
  return reinterpret_cast<Node*>(reinterpret_cast<char*>(shown) - offsetof(Node, shown));
}

// The files of a directory, in memory of their own.
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

// The entry behind a link, or its real attributes if it leads outside.
void follow_node(Node& node, bool& exists) {
  const hook::Scratch<Walk> walk;
  exists = false;
  if (!walk) return;
  const wire::CatalogueEntry link = entry_at(node.own);
  const Place place = walk_path(client.catalogued(), link.parent, client.catalogue.name(link),
                                Last::kFollow, *walk);
  if (place.where == Where::kInside) {
    node.entry = place.entry;
    fill_status(place.entry, &node.status);
    exists = true;
  } else if (place.where == Where::kElsewhere) {
    static constinit Real<int(int, const char*, struct stat*, int)> real{"fstatat"};
    exists = real(AT_FDCWD, place.path, &node.status, 0) == 0;
    if (exists) node.entry = kNoEntry;
  }
}

// Fills in what the file is.
void classify(Node& node, bool follows) {
  FTSENT& shown = node.shown;
  if (node.own == kNoEntry) return;
  node.entry = node.own;
  fill_status(node.own, &node.status);
  shown.fts_info = S_ISDIR(node.status.st_mode)   ? FTS_D
                   : S_ISLNK(node.status.st_mode) ? FTS_SL
                                                  : FTS_F;
  if (shown.fts_info == FTS_SL && follows) {
    bool exists = false;
    follow_node(node, exists);
    shown.fts_info = !exists                        ? FTS_SLNONE
                     : S_ISDIR(node.status.st_mode) ? FTS_D
                     : S_ISREG(node.status.st_mode) ? FTS_F
                                                    : FTS_DEFAULT;
  }
  shown.fts_ino = node.status.st_ino;
  shown.fts_dev = node.status.st_dev;
  shown.fts_nlink = node.status.st_nlink;
  if (shown.fts_info != FTS_D || node.entry == kNoEntry) return;
  for (FTSENT* at = shown.fts_parent; at->fts_level >= FTS_ROOTLEVEL; at = at->fts_parent) {
    if (node_of(at)->entry != node.entry) continue;
    shown.fts_info = FTS_DC;
    shown.fts_cycle = at;
    return;
  }
}

// A new node in the memory at `at`.
Node* make_node(char* at, uint32_t entry, std::string_view name, std::string_view start,
                FTSENT* parent) {
  Node* node = new (at) Node{};
  node->own = entry;
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

// Where the nodes of a new block go: first a list of pointers to them, then they themselves.
struct Room {
  FTSENT** list;
  char* nodes;
};

// Null pointers if memory is refused.
Room add_block(FtsStream& stream, size_t count, size_t nodes_bytes) {
  const size_t list_bytes = (count * sizeof(FTSENT*) + 15) & ~size_t{15};
  const size_t size_bytes = sizeof(Block) + list_bytes + nodes_bytes;
  static_assert(sizeof(Block) % 16 == 0);
  auto* memory = static_cast<char*>(map_memory(size_bytes));
  if (memory == nullptr) return {};
  stream.top = new (memory) Block{stream.top, size_bytes};
  return {reinterpret_cast<FTSENT**>(memory + sizeof(Block)), memory + sizeof(Block) + list_bytes};
}

// The same for a name that a program has created, in an open directory.
void classify_written(Node& node, int directory, bool follows) {
  FTSENT& shown = node.shown;
  node.entry = kNoEntry;
  const bool exists = fstatat(directory, shown.fts_name, &node.status, AT_SYMLINK_NOFOLLOW) == 0;
  const mode_t mode = node.status.st_mode;
  shown.fts_info = !exists ? FTS_NS : S_ISDIR(mode) ? FTS_D : S_ISLNK(mode) ? FTS_SL : FTS_F;
  if (shown.fts_info == FTS_SL && follows) {
    struct stat target;
    const bool leads = fstatat(directory, shown.fts_name, &target, 0) == 0;
    if (leads) node.status = target;
    shown.fts_info = !leads ? FTS_SLNONE : S_ISREG(target.st_mode) ? FTS_F : FTS_DEFAULT;
  }
  if (exists && !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode)) shown.fts_info = FTS_DEFAULT;
  shown.fts_ino = node.status.st_ino;
  shown.fts_dev = node.status.st_dev;
  shown.fts_nlink = node.status.st_nlink;
}

// The children of a directory while they are listed.
struct Children {
  uint32_t directory;  // kNoEntry: a program has created it
  wire::CatalogueView::Children catalogued;
  DIR* written;  // null: none

  size_t count = 0;
  size_t size_bytes = 0;
};

void measure(Children& children) {
  for (uint32_t i = 0; i < children.catalogued.count; ++i, ++children.count) {
    children.size_bytes += node_bytes(entry_at(children.catalogued.first + i).name_bytes, 0);
  }
  if (children.written == nullptr) return;
  while (const struct dirent64* next = next_written(children.written, children.directory)) {
    children.size_bytes += node_bytes(strlen(next->d_name), 0);
    ++children.count;
  }
  rewinddir(children.written);
}

// Makes the nodes; names that have appeared since are left out. Returns how many.
size_t make_children(const Children& children, FTSENT* parent, bool follows, const Room& room) {
  char* at = room.nodes;
  size_t made = 0;
  for (; made < children.catalogued.count; ++made) {
    const uint32_t entry = children.catalogued.first + static_cast<uint32_t>(made);
    const std::string_view name = client.catalogue.name(entry_at(entry));
    Node* node = make_node(at, entry, name, {}, parent);
    classify(*node, follows);
    room.list[made] = &node->shown;
    at += node_bytes(name.size(), 0);
  }
  while (made < children.count) {
    const struct dirent64* next = next_written(children.written, children.directory);
    if (next == nullptr) break;
    const size_t size = node_bytes(strlen(next->d_name), 0);
    if (at + size > room.nodes + children.size_bytes) break;
    Node* node = make_node(at, kNoEntry, next->d_name, {}, parent);
    classify_written(*node, dirfd(children.written), follows);
    room.list[made++] = &node->shown;
    at += size;
  }
  return made;
}

// The children of a directory, on top. Null with errno if there are none or memory is refused.
// REQUIRES: it is the current one.
FTSENT* build_children(FtsStream& stream, FTSENT* parent) {
  const Node& above = *node_of(parent);
  if (above.entry == kNoEntry && above.own != kNoEntry) return failure<FTSENT*>(0);  // outside
  Children children = {.directory = above.entry, .catalogued = {}, .written = nullptr};
  if (above.entry != kNoEntry)
    children.catalogued = client.catalogue.children(entry_at(above.entry));
  children.written = above.entry != kNoEntry ? open_written(above.entry) : opendir(stream.path);
  measure(children);
  FTSENT* first = nullptr;
  int error = 0;
  if (children.count > 0) {
    const Room room = add_block(stream, children.count, children.size_bytes);
    const bool follows = (stream.shown.fts_options & FTS_LOGICAL) != 0;
    error = room.list == nullptr ? ENOMEM : 0;
    if (error == 0) {
      const size_t count = make_children(children, parent, follows, room);
      first = link_nodes(stream, room.list, count);
      stream.is_built = first != nullptr;
      if (first == nullptr) drop_block(stream);
    }
  }
  if (children.written != nullptr) closedir(children.written);
  errno = error;
  return first;
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
    Lookup lookup;
    const Place place = lookup.find(AT_FDCWD, paths[i], Last::kKeepLink);
    Node* node = make_node(at, place.entry, last_component(path), path, &stream.above.shown);
    classify(*node, (stream.shown.fts_options & (FTS_LOGICAL | FTS_COMFOLLOW)) != 0);
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
    if (next->fts_instr == FTS_FOLLOW) classify(*node_of(next), true);
    next->fts_instr = kNoInstruction;
    return show(stream, next);
  }
  FTSENT* parent = current->fts_parent;
  if (parent->fts_level < FTS_ROOTLEVEL) {
    stream.has_ended = true;
    return failure<FTSENT*>(0);
  }
  drop_block(stream);
  return show_again(stream, parent);
}

FTSENT* read_next(FtsStream& stream) {
  if (stream.has_ended) return failure<FTSENT*>(0);
  FTSENT* current = stream.shown.fts_cur;
  if (current == nullptr) return show(stream, stream.first);
  const int instruction = current->fts_instr;
  current->fts_instr = kNoInstruction;
  if (instruction == FTS_AGAIN) {
    classify(*node_of(current), (stream.shown.fts_options & FTS_LOGICAL) != 0);
    return current;
  }
  if (instruction == FTS_FOLLOW && current->fts_info == FTS_SL) {
    classify(*node_of(current), true);
    return current;
  }
  if (current->fts_info != FTS_D) return after(stream, current);
  if (instruction == FTS_SKIP) {
    if (stream.is_built) drop_block(stream);
    stream.is_built = false;
    return show_again(stream, current);
  }
  FTSENT* child = stream.is_built ? stream.shown.fts_child : build_children(stream, current);
  stream.is_built = false;
  if (child == nullptr) return errno == 0 ? show_again(stream, current) : nullptr;
  return show(stream, child);
}

bool all_inside(char* const* paths, size_t& count) {
  for (count = 0; paths[count] != nullptr; ++count) {
    Lookup lookup;
    const Place place = lookup.find(AT_FDCWD, paths[count], Last::kKeepLink);
    if (place.where != Where::kInside || strlen(paths[count]) >= kPathBytes) return false;
  }
  return count > 0;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

FTS* fts_open(char* const* paths, int options, int (*compare)(const FTSENT**, const FTSENT**)) {
  static constinit Real<decltype(fts_open)> real{"fts_open"};
  size_t count = 0;
  if (!active() || is_bad(paths) || !all_inside(paths, count)) return real(paths, options, compare);
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
  static constinit Real<decltype(fts_read)> real{"fts_read"};
  return is_ours(stream) ? read_next(*fts_stream_of(stream)) : real(stream);
}

FTSENT* fts_children(FTS* stream, int instruction) {
  static constinit Real<decltype(fts_children)> real{"fts_children"};
  if (!is_ours(stream)) return real(stream, instruction);
  FtsStream& own = *fts_stream_of(stream);
  FTSENT* current = stream->fts_cur;
  if (current == nullptr) return own.first;
  if (own.has_ended || current->fts_info != FTS_D) return failure<FTSENT*>(0);
  if (!own.is_built) stream->fts_child = build_children(own, current);
  return stream->fts_child;
}

int fts_set(FTS* stream, FTSENT* node, int instruction) {
  static constinit Real<decltype(fts_set)> real{"fts_set"};
  if (!is_ours(stream)) return real(stream, node, instruction);
  node->fts_instr = static_cast<unsigned short>(instruction == 0 ? kNoInstruction : instruction);
  return 0;
}

int fts_close(FTS* stream) {
  static constinit Real<decltype(fts_close)> real{"fts_close"};
  if (!is_ours(stream)) return real(stream);
  FtsStream& own = *fts_stream_of(stream);
  while (own.top != nullptr) drop_block(own);
  millrace::hook::sys_munmap(stream, sizeof(FtsStream));
  return 0;
}

}  // extern "C"

// Other names of the same calls.
asm(R"(
  .globl fts64_open
  .set fts64_open, fts_open
  .globl fts64_read
  .set fts64_read, fts_read
  .globl fts64_children
  .set fts64_children, fts_children
  .globl fts64_set
  .set fts64_set, fts_set
  .globl fts64_close
  .set fts64_close, fts_close
)");
