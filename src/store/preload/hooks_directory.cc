// Reading directories: opendir and readdir, scandir and glob.
//
// A directory stream is a real one, of the directory in the tree of the node, which lacks the files
// that nobody has read yet. So its descriptor is real, but its entries come from the catalogue. The
// names that programs have created follow, from the real stream.
#include <dirent.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/arena.h"
#include "hook/syscall.h"
#include "store/preload/attributes.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

constinit Real<DIR*(const char*)> real_opendir{"opendir"};
constinit Real<int(DIR*)> real_closedir{"closedir"};
constinit Real<void(DIR*)> real_rewinddir{"rewinddir"};
constinit Real<struct dirent64*(DIR*)> real_readdir{"readdir64"};

// The position in a stream, and the entry that readdir returned last. Streams of the store are
// found by their descriptor.
struct Stream {
  uint64_t position;
  struct dirent64 entry;
};
constinit millrace::hook::Arena<Stream, 64, 16384> streams;

unsigned char type_of(EntryKind kind) {
  return kind == EntryKind::kDirectory ? DT_DIR : kind == EntryKind::kLink ? DT_LNK : DT_REG;
}

void fill_entry(uint32_t index, std::string_view name, uint64_t position, struct dirent64* out) {
  out->d_ino = wire::inode_of(index);
  out->d_off = static_cast<off64_t>(position + 1);
  out->d_type = type_of(entry_at(index).kind);
  const size_t size = offsetof(struct dirent64, d_name) + name.size() + 1;
  out->d_reclen = static_cast<uint16_t>((size + 7) & ~size_t{7});
  memcpy(out->d_name, name.data(), name.size());
  out->d_name[name.size()] = '\0';
}

// Entry number `position` of a directory, counting "." and "..". False at the end.
bool read_entry(uint32_t directory, uint64_t position, struct dirent64* out) {
  const wire::CatalogueEntry entry = entry_at(directory);
  if (position == 0) {
    fill_entry(directory, ".", position, out);
    return true;
  }
  if (position == 1) {
    const bool is_known = entry.parent < client.catalogue.entry_count();
    fill_entry(is_known ? entry.parent : wire::kRootEntry, "..", position, out);
    return true;
  }
  const wire::CatalogueView::Children children = client.catalogue.children(entry);
  if (position - 2 >= children.count) return false;
  const auto child = children.first + static_cast<uint32_t>(position - 2);
  fill_entry(child, client.catalogue.name(entry_at(child)), position, out);
  return true;
}

// The directory that a stream reads; kNoEntry if it is not one of the store.
uint32_t directory_of(DIR* stream) {
  return active() && !is_bad(stream) ? entry_of(dirfd(stream)) : kNoEntry;
}

Stream* stream_of(int fd) { return fd < 0 ? nullptr : streams.at(static_cast<size_t>(fd)); }

// Whether a real name in a directory of the tree was created by a program.
bool is_written_name(uint32_t directory, const char* name) {
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
  const hook::Scratch<RealPath> path;
  if (!path) return false;
  const size_t size = write_path(client.catalogue, directory, path->text, kPathBytes);
  const size_t slash = size == 0 ? 0 : 1;
  path->text[size] = '/';
  const size_t name_size = strlen(name);
  memcpy(path->text + size + slash, name, name_size);
  return client.catalogue.find({path->text, size + slash + name_size}) == kNoEntry;
}

// A link may stand for a file of another node: lstat tells.
struct dirent64* without_link_type(struct dirent64* entry) {
  if (entry != nullptr && entry->d_type == DT_LNK) entry->d_type = DT_UNKNOWN;
  return entry;
}

}  // namespace

DIR* open_written(uint32_t directory) {
  if (!client.has_written()) return failure<DIR*>(ENOENT);
  return with_real_path(directory, [](const char* path) { return real_opendir(path); });
}

struct dirent64* next_written(DIR* real, uint32_t directory) {
  if (!client.has_written()) return nullptr;
  for (;;) {
    struct dirent64* entry = real_readdir(real);
    const bool is_new =
        entry == nullptr ||
        (directory == kNoEntry ? strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0
                               : is_written_name(directory, entry->d_name));
    if (is_new) return without_link_type(entry);
  }
}

namespace {

struct dirent64* next_entry(DIR* real, uint32_t directory) {
  Stream* stream = stream_of(dirfd(real));
  if (stream == nullptr) return failure<struct dirent64*>(ENOMEM);
  if (!read_entry(directory, stream->position, &stream->entry)) {
    const struct dirent64* written = next_written(real, directory);
    if (written == nullptr) return nullptr;
    memcpy(&stream->entry, written, written->d_reclen);
    stream->entry.d_off = static_cast<off64_t>(stream->position + 1);
  }
  ++stream->position;
  return &stream->entry;
}

// Places are numbers of entries; the real stream is read again up to there.
void seek_entry(DIR* real, uint32_t directory, uint64_t position) {
  Stream* stream = stream_of(dirfd(real));
  if (stream == nullptr) return;
  real_rewinddir(real);
  stream->position = position;
  const uint64_t first_written = 2 + client.catalogue.children(entry_at(directory)).count;
  for (uint64_t i = first_written; i < position; ++i) {
    if (next_written(real, directory) == nullptr) return;
  }
}

// The names that programs have created, for getdents64: those of the kernel without the others.
// Minus an errno value if it fails; 0 at the end.
ssize_t read_written(int fd, uint32_t directory, char* buffer, size_t size) {
  if (!client.has_written()) return 0;
  for (;;) {
    const long got =
        hook::own_call(SYS_getdents64, fd, hook::word(buffer), static_cast<long>(size));
    if (got <= 0) return got;
    ssize_t kept = 0;
    for (long at = 0; at < got;) {
      auto* entry = without_link_type(reinterpret_cast<struct dirent64*>(buffer + at));
      const size_t entry_size = entry->d_reclen;
      if (is_written_name(directory, entry->d_name)) {
        memmove(buffer + kept, buffer + at, entry_size);
        kept += static_cast<ssize_t>(entry_size);
      }
      at += static_cast<long>(entry_size);
    }
    if (kept > 0) return kept;
  }
}

DIR* open_directory(uint32_t entry) {
  if (!is_directory(entry)) return failure<DIR*>(ENOTDIR);
  DIR* stream = with_real_path(entry, [&](const char* path) { return real_opendir(path); });
  if (stream == nullptr) return nullptr;
  const int fd = dirfd(stream);
  note_opened(fd, entry);
  if (Stream* own = stream_of(fd); own != nullptr) own->position = 0;
  return stream;
}

using Filter = int (*)(const struct dirent64*);
using Order = int (*)(const struct dirent64**, const struct dirent64**);

// The list that scandir returns: in the program's heap.
struct List {
  struct dirent64** entries = nullptr;
  size_t count = 0;
  size_t room = 0;

  bool add(const struct dirent64& entry) {
    if (count == room) {
      const size_t wanted = room == 0 ? 32 : 2 * room;
      void* memory = program_allocate(entries, wanted * sizeof(*entries));
      if (memory == nullptr) return false;
      entries = static_cast<struct dirent64**>(memory);
      room = wanted;
    }
    void* copy = program_allocate(nullptr, entry.d_reclen);
    if (copy == nullptr) return false;
    memcpy(copy, &entry, entry.d_reclen);
    entries[count++] = static_cast<struct dirent64*>(copy);
    return true;
  }

  void clear() {
    for (size_t i = 0; i < count; ++i) program_free(entries[i]);
    program_free(entries);
  }
};

// False if memory is refused.
bool list_written(uint32_t directory, Filter filter, List& list) {
  DIR* real = open_written(directory);
  if (real == nullptr) return true;
  bool has_room = true;
  while (has_room) {
    const struct dirent64* entry = next_written(real, directory);
    if (entry == nullptr) break;
    if (filter == nullptr || filter(entry) != 0) has_room = list.add(*entry);
  }
  real_closedir(real);
  return has_room;
}

int scan_directory(uint32_t directory, struct dirent64*** out, Filter filter, Order order) {
  if (!is_directory(directory)) return failure<int>(ENOTDIR);
  const hook::Scratch<struct dirent64> entry;
  if (!entry) return failure<int>(ENOMEM);
  const int saved_errno = errno;
  List list;
  bool has_room = true;
  for (uint64_t position = 0; has_room && read_entry(directory, position, &*entry); ++position) {
    if (filter == nullptr || filter(&*entry) != 0) has_room = list.add(*entry);
  }
  if (!has_room || !list_written(directory, filter, list)) {
    list.clear();
    return failure<int>(ENOMEM);
  }
  if (order != nullptr && list.count > 0) {
    using Compare = int (*)(const void*, const void*);
    static constinit Real<void(void*, size_t, size_t, Compare)> sort{"qsort"};
    sort(list.entries, list.count, sizeof(*list.entries), reinterpret_cast<Compare>(order));
  }
  if (list.entries == nullptr) {
    list.entries = static_cast<struct dirent64**>(program_allocate(nullptr, sizeof(void*)));
  }
  *out = list.entries;
  errno = saved_errno;
  return static_cast<int>(list.count);
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

DIR* opendir(const char* path) {
  return on_path(AT_FDCWD, path, Last::kFollow, open_directory, [&](int, const char* other) {
    DIR* stream = real_opendir(other);
    if (stream != nullptr && active()) forget(dirfd(stream));
    return stream;
  });
}

DIR* fdopendir(int fd) {
  static constinit Real<DIR*(int)> real{"fdopendir"};
  DIR* stream = real(fd);
  if (stream != nullptr && entry_of(fd) != kNoEntry) {
    if (Stream* own = stream_of(fd); own != nullptr) own->position = 0;
  }
  return stream;
}

struct dirent64* readdir64(DIR* stream) {
  const uint32_t directory = directory_of(stream);
  if (directory != kNoEntry) return next_entry(stream, directory);
  struct dirent64* entry = real_readdir(stream);
  const bool is_link = entry != nullptr && entry->d_type == DT_LNK;
  return is_link && is_in_written_directory(dirfd(stream)) ? without_link_type(entry) : entry;
}

int readdir64_r(DIR* stream, struct dirent64* out, struct dirent64** result) {
  static constinit Real<int(DIR*, struct dirent64*, struct dirent64**)> real{"readdir64_r"};
  const uint32_t directory = directory_of(stream);
  if (directory == kNoEntry) return real(stream, out, result);
  const struct dirent64* entry = next_entry(stream, directory);
  *result = entry == nullptr ? nullptr : out;
  if (entry != nullptr) memcpy(out, entry, entry->d_reclen);
  return 0;
}

int closedir(DIR* stream) {
  if (active() && !is_bad(stream)) forget(dirfd(stream));
  return real_closedir(stream);
}

void rewinddir(DIR* stream) {
  const uint32_t directory = directory_of(stream);
  if (directory == kNoEntry) return real_rewinddir(stream);
  seek_entry(stream, directory, 0);
}

void seekdir(DIR* stream, long place) {
  static constinit Real<void(DIR*, long)> real{"seekdir"};
  const uint32_t directory = directory_of(stream);
  if (directory == kNoEntry) return real(stream, place);
  seek_entry(stream, directory, static_cast<uint64_t>(place));
}

long telldir(DIR* stream) {
  static constinit Real<long(DIR*)> real{"telldir"};
  if (directory_of(stream) == kNoEntry) return real(stream);
  const Stream* own = stream_of(dirfd(stream));
  return own == nullptr ? failure<long>(ENOMEM) : static_cast<long>(own->position);
}

ssize_t getdents64(int fd, void* buffer, size_t size) {
  static constinit Real<ssize_t(int, void*, size_t)> real{"getdents64"};
  const uint32_t directory = entry_of(fd);
  if (directory == kNoEntry || !is_directory(directory)) {
    const ssize_t got = real(fd, buffer, size);
    for (ssize_t at = 0; at < got && is_in_written_directory(fd);) {
      at += without_link_type(reinterpret_cast<struct dirent64*>(static_cast<char*>(buffer) + at))
                ->d_reclen;
    }
    return got;
  }
  Stream* own = stream_of(fd);
  if (own == nullptr) return failure<ssize_t>(ENOMEM);
  size_t filled = 0;
  while (read_entry(directory, own->position, &own->entry)) {
    if (own->entry.d_reclen > size - filled) {
      return filled == 0 ? failure<ssize_t>(EINVAL) : static_cast<ssize_t>(filled);
    }
    memcpy(static_cast<char*>(buffer) + filled, &own->entry, own->entry.d_reclen);
    filled += own->entry.d_reclen;
    ++own->position;
  }
  if (filled != 0) return static_cast<ssize_t>(filled);
  const ssize_t written = read_written(fd, directory, static_cast<char*>(buffer), size);
  return written < 0 ? failure<ssize_t>(static_cast<int>(-written)) : written;
}

int scandirat64(int directory, const char* path, struct dirent64*** list,
                int (*filter)(const struct dirent64*),
                int (*order)(const struct dirent64**, const struct dirent64**)) {
  static constinit Real<decltype(scandirat64)> real{"scandirat64"};
  return on_path(
      directory, path, Last::kFollow,
      [&](uint32_t entry) { return scan_directory(entry, list, filter, order); },
      [&](int base, const char* other) { return real(base, other, list, filter, order); });
}

int scandir64(const char* path, struct dirent64*** list, int (*filter)(const struct dirent64*),
              int (*order)(const struct dirent64**, const struct dirent64**)) {
  static constinit Real<decltype(scandir64)> real{"scandir64"};
  return on_path(
      AT_FDCWD, path, Last::kFollow,
      [&](uint32_t entry) { return scan_directory(entry, list, filter, order); },
      [&](int, const char* other) { return real(other, list, filter, order); });
}

// The C library's glob reads directories by functions of the caller if asked to. These are ours,
// for any pattern: it may reach the root in the middle.
int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* result) {
  static constinit Real<decltype(glob64)> real{"glob64"};
  if (!active() || (flags & GLOB_ALTDIRFUNC) != 0) return real(pattern, flags, on_error, result);
  result->gl_opendir = [](const char* path) -> void* { return opendir(path); };
  result->gl_readdir = [](void* stream) { return readdir64(static_cast<DIR*>(stream)); };
  result->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };
  result->gl_stat = [](const char* path, struct stat64* status) { return stat64(path, status); };
  result->gl_lstat = [](const char* path, struct stat64* status) { return lstat64(path, status); };
  const int code = real(pattern, flags | GLOB_ALTDIRFUNC, on_error, result);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return code;
}

}  // extern "C"

// Other names of the same calls: struct dirent and struct dirent64 are the same. Defined in
// assembly, because headers declare them with types of their own.
asm(R"(
  .globl readdir
  .set readdir, readdir64
  .globl readdir_r
  .set readdir_r, readdir64_r
  .globl scandir
  .set scandir, scandir64
  .globl scandirat
  .set scandirat, scandirat64
  .globl glob
  .set glob, glob64
)");
