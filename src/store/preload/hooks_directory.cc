// Reading directories: opendir and readdir, scandir and glob.
//
// A directory stream is a real one: of the directory in the upper directory, or if it is not there,
// in the tree of the node, which lacks the files that nobody has read yet. So its descriptor is
// real, but its entries come from the catalogue, and then from a listing of the names that programs
// have created.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/arena.h"
#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// The names in a directory that the upper directory and the buffer have, and the catalogue lacks. A
// snapshot, in memory of its own. A directory that has the same time as in the catalogue has not
// changed since it was packed, and is not read.
class Listing {
 public:
  // Reads the names of a directory. `entry` is its entry in the catalogue; kNoEntry: programs have
  // created it; then "." and ".." are listed too. `relative` is its path relative to the root. 0,
  // or an errno value.
  int read(uint32_t entry, std::string_view relative);
  void clear();

  // Entry number `position`, copied to `out`; false at the end.
  bool at(uint64_t position, struct dirent64* out);

 private:
  int read_upper(uint32_t entry, std::string_view relative);
  int read_buffer(std::string_view relative);
  bool reserve(size_t more_bytes);
  bool has(std::string_view name) const;

  char* bytes_ = nullptr;  // records as getdents64 has them
  size_t size_bytes_ = 0;
  size_t room_bytes_ = 0;
  size_t offset_ = 0;  // of the record `position_`
  uint64_t position_ = 0;
};

constexpr size_t kReadBytes = 32 * 1024;

size_t record_bytes(size_t name_size) {
  return (offsetof(struct dirent64, d_name) + name_size + 1 + 7) & ~size_t{7};
}

bool has_changed(int fd, uint32_t entry) {
  struct stat status;
  return hook::sys_fstat(fd, &status) == 0 &&
         status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec !=
             client.catalogue.entry(entry).mtime_ns;
}

// "directory/relative/" in `path`, to which names are added.
class Folder {
 public:
  Folder(std::string_view directory, std::string_view relative) {
    if (!path_) return;
    Text text(path_->text);
    text.add(directory).add("/");
    root_size_ = text.size();
    text.add(relative).add(relative.empty() ? "" : "/");
    size_ = text.size();
  }
  explicit operator bool() const { return static_cast<bool>(path_); }

  int open() const { return hook::sys_open(path_->text, O_RDONLY | O_DIRECTORY); }
  const char* path_of(std::string_view name) const {
    Text(path_->text + size_, sizeof(path_->text) - size_).add(name);
    return path_->text;
  }
  std::string_view relative_of(std::string_view name) const {
    path_of(name);
    return {path_->text + root_size_, size_ - root_size_ + name.size()};
  }

 private:
  const hook::Scratch<RealPath> path_;
  size_t root_size_ = 0;
  size_t size_ = 0;
};

// Whether a name of the upper directory is shown there. If the buffer has another file of that
// name, `*type` becomes its type.
bool is_shown(const Folder& folder, uint32_t entry, std::string_view name, unsigned char* type) {
  if (name == "." || name == "..") return entry == wire::kNoEntry;
  const std::string_view relative = folder.relative_of(name);
  if (client.has_buffer()) {
    uint64_t id = 0;
    if (wire::is_buffer_copy(name)) return false;  // is being made
    const Buffered found = look(client.buffer, relative, &id);
    if (found == Buffered::kRemoved) return false;
    if (found == Buffered::kFile) *type = DT_REG;
  }
  return entry == wire::kNoEntry || client.catalogue.find(relative) == wire::kNoEntry;
}

int Listing::read(uint32_t entry, std::string_view relative) {
  clear();
  if (client.upper.empty()) return 0;
  if (!client.has_buffer()) return read_upper(entry, relative);
  const NamesHeld held(client.buffer, relative);
  const int error = read_upper(entry, relative);
  return error == 0 ? read_buffer(relative) : error;
}

void Listing::clear() {
  if (bytes_ != nullptr) hook::sys_munmap(bytes_, room_bytes_);
  *this = {};
}

int Listing::read_upper(uint32_t entry, std::string_view relative) {
  const Folder folder(client.upper, relative);
  if (!folder) return ENOMEM;
  const int fd = folder.open();
  if (fd < 0) return fd == -ENOENT || fd == -ENOTDIR ? 0 : -fd;
  long got = 0;
  const bool is_read = entry == wire::kNoEntry || client.has_buffer() || has_changed(fd, entry);
  while (is_read) {
    got = -ENOMEM;
    if (!reserve(kReadBytes)) break;
    char* const begin = bytes_ + size_bytes_;
    got = hook::own_call(SYS_getdents64, fd, hook::word(begin), kReadBytes);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      auto* record = reinterpret_cast<struct dirent64*>(begin + at);
      const size_t size = record->d_reclen;
      if (is_shown(folder, entry, record->d_name, &record->d_type)) {
        std::memmove(bytes_ + size_bytes_, record, size);
        size_bytes_ += size;
      }
      at += static_cast<long>(size);
    }
  }
  hook::sys_close(fd);
  return static_cast<int>(-got);
}

// Names that only the buffer has. Whether the upper directory has one now does not matter: the
// drainer may have copied it there after that was read.
int Listing::read_buffer(std::string_view relative) {
  const hook::Scratch<NameReader> reader;
  const hook::Scratch<BufferedName> name;
  if (!reader || !name) return ENOMEM;
  const int names = open_names(client.buffer, relative);
  if (names < 0) {
    const bool has_none = names == -ENOENT || names == -ENOTDIR || names == -ENAMETOOLONG;
    return has_none ? 0 : -names;
  }
  int found = 0;
  while ((found = next_name(names, *reader, *name)) == 1) {
    const std::string_view text = name->text;
    if (name->kind != Buffered::kFile || has(text)) continue;
    found = -ENOMEM;
    if (!reserve(record_bytes(text.size()))) break;
    auto* record = reinterpret_cast<struct dirent64*>(bytes_ + size_bytes_);
    record->d_ino = name->id;
    record->d_type = DT_REG;
    record->d_reclen = static_cast<uint16_t>(record_bytes(text.size()));
    std::memcpy(record->d_name, text.data(), text.size() + 1);
    size_bytes_ += record->d_reclen;
  }
  hook::sys_close(names);
  return found == -ENOENT ? 0 : -found;  // the drainer has removed the last name, and the directory
}

bool Listing::has(std::string_view name) const {
  for (size_t at = 0; at < size_bytes_;) {
    const auto* record = reinterpret_cast<const struct dirent64*>(bytes_ + at);
    if (name == record->d_name) return true;
    at += record->d_reclen;
  }
  return false;
}

bool Listing::reserve(size_t more_bytes) {
  if (size_bytes_ + more_bytes <= room_bytes_) return true;
  const size_t room = room_bytes_ == 0 ? 2 * kReadBytes : 2 * room_bytes_;
  void* memory = hook::sys_mmap(room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == nullptr) return false;
  if (bytes_ != nullptr) {
    std::memcpy(memory, bytes_, size_bytes_);
    hook::sys_munmap(bytes_, room_bytes_);
  }
  bytes_ = static_cast<char*>(memory);
  room_bytes_ = room;
  return true;
}

bool Listing::at(uint64_t position, struct dirent64* out) {
  if (position < position_) position_ = offset_ = 0;
  for (; offset_ < size_bytes_; ++position_) {
    const auto* record = reinterpret_cast<const struct dirent64*>(bytes_ + offset_);
    if (position_ == position) {
      std::memcpy(out, record, record->d_reclen);
      return true;
    }
    offset_ += record->d_reclen;
  }
  return false;
}

// Streams of the store, by their descriptor.
struct Stream {
  uint64_t position;  // of the next entry
  bool has_listing;
  Listing created;
  struct dirent64 entry;  // the one that readdir returned last
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

// Entry number `position` of a directory of the catalogue, counting "." and "..".
void read_entry(uint32_t directory, uint64_t position, struct dirent64* out) {
  const wire::CatalogueEntry entry = entry_at(directory);
  if (position == 0) return fill_entry(directory, ".", position, out);
  if (position == 1) {
    const bool is_known = entry.parent < client.catalogue.entry_count();
    return fill_entry(is_known ? entry.parent : wire::kRootEntry, "..", position, out);
  }
  const uint32_t child =
      client.catalogue.children(entry).first + static_cast<uint32_t>(position - 2);
  fill_entry(child, client.catalogue.name(entry_at(child)), position, out);
}

uint64_t catalogued_count(uint32_t directory) {
  return directory == kNoEntry ? 0 : 2 + client.catalogue.children(entry_at(directory)).count;
}

Stream* stream_of(int fd) { return fd < 0 ? nullptr : streams.at(static_cast<size_t>(fd)); }

// What the descriptor's directory has besides the catalogue. 0, or an errno value.
int read_created(int fd, uint32_t directory, Listing& created) {
  const hook::Scratch<RealPath> path;
  if (!path) return ENOMEM;
  std::string_view relative;
  if (directory != kNoEntry) {
    relative = {path->text, write_path(client.catalogue, directory, path->text, kPathBytes)};
  } else {
    const long size = read_descriptor_link(fd, path->text, sizeof(path->text));
    if (size <= 0) return ENOENT;
    relative = client.below_upper({path->text, static_cast<size_t>(size)});
    if (relative.size() < 2) return ENOENT;
    relative.remove_prefix(1);
  }
  return created.read(directory, relative);
}

// The next entry of the descriptor's directory; null at the end, and with errno if it fails.
struct dirent64* peek(int fd, uint32_t directory, Stream& stream) {
  const uint64_t count = catalogued_count(directory);
  if (stream.position < count) {
    read_entry(directory, stream.position, &stream.entry);
    return &stream.entry;
  }
  if (!stream.has_listing) {
    if (const int error = read_created(fd, directory, stream.created); error != 0) {
      return failure<struct dirent64*>(error);
    }
    stream.has_listing = true;
  }
  if (!stream.created.at(stream.position - count, &stream.entry)) return nullptr;
  stream.entry.d_off = static_cast<off64_t>(stream.position + 1);
  return &stream.entry;
}

// Whether we list a descriptor's directory: one of the catalogue, or a created one of which the
// buffer may have names.
bool is_listed(int fd, uint32_t* directory) {
  if (!active() || fd < 0) return false;
  *directory = entry_of(fd);
  if (*directory != kNoEntry) return is_directory(*directory);
  return client.has_buffer() && is_created_directory(fd);
}
bool is_listed(DIR* stream, uint32_t* directory) {
  return active() && !is_bad(stream) && is_listed(dirfd(stream), directory);
}

}  // namespace

void begin_listing(int fd) {
  Stream* stream = fd < 0 ? nullptr : streams.find(static_cast<size_t>(fd));
  if (stream == nullptr) return;
  stream->created.clear();
  stream->has_listing = false;
  stream->position = 0;
}

namespace {

struct dirent64* next_entry(DIR* real, uint32_t directory) {
  Stream* stream = stream_of(dirfd(real));
  if (stream == nullptr) return failure<struct dirent64*>(ENOMEM);
  struct dirent64* entry = peek(dirfd(real), directory, *stream);
  if (entry != nullptr) ++stream->position;
  return entry;
}

DIR* open_directory(uint32_t entry) {
  if (!is_directory(entry)) return failure<DIR*>(ENOTDIR);
  const int saved_errno = errno;
  const hook::Scratch<RealPath> path;
  DIR* stream = path && path->in_upper(entry) ? real_call<opendir>(path->text) : nullptr;
  if (stream == nullptr) {
    errno = saved_errno;
    stream = with_real_path(entry, [&](const char* real) { return real_call<opendir>(real); });
  }
  if (stream == nullptr) return nullptr;
  note_new_number(dirfd(stream));
  note_opened(dirfd(stream), entry);
  begin_listing(dirfd(stream));
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

// scandir of an open directory.
int scan(DIR* stream, struct dirent64*** out, Filter filter, Order order) {
  List list;
  bool has_room = true;
  errno = 0;
  for (const struct dirent64* entry; has_room && (entry = readdir64(stream)) != nullptr;) {
    if (filter == nullptr || filter(entry) != 0) has_room = list.add(*entry);
    errno = 0;
  }
  const int error = has_room ? errno : ENOMEM;
  closedir(stream);
  if (error != 0) {
    list.clear();
    return failure<int>(error);
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
  return static_cast<int>(list.count);
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

DIR* opendir(const char* path) {
  return on_path(AT_FDCWD, path, Last::kFollow, open_directory, [&](int, const char* other) {
    DIR* stream = real_call<opendir>(other);
    if (stream == nullptr || !active()) return stream;
    note_new_number(dirfd(stream));
    begin_listing(dirfd(stream));
    return stream;
  });
}

DIR* fdopendir(int fd) {
  DIR* stream = real_call<fdopendir>(fd);
  if (uint32_t directory; is_listed(stream, &directory)) begin_listing(fd);
  return stream;
}

struct dirent64* readdir64(DIR* stream) {
  uint32_t directory;
  return is_listed(stream, &directory) ? next_entry(stream, directory)
                                       : real_call<readdir64>(stream);
}

int readdir64_r(DIR* stream, struct dirent64* out, struct dirent64** result) {
  static constinit Real<int(DIR*, struct dirent64*, struct dirent64**)> real{"readdir64_r"};
  uint32_t directory;
  if (!is_listed(stream, &directory)) return real(stream, out, result);
  const struct dirent64* entry = next_entry(stream, directory);
  *result = entry == nullptr ? nullptr : out;
  if (entry != nullptr) memcpy(out, entry, entry->d_reclen);
  return 0;
}

int closedir(DIR* stream) {
  if (uint32_t directory; is_listed(stream, &directory)) begin_listing(dirfd(stream));
  if (active() && !is_bad(stream)) forget(dirfd(stream));
  return real_call<closedir>(stream);
}

void rewinddir(DIR* stream) {
  uint32_t directory;
  return is_listed(stream, &directory) ? begin_listing(dirfd(stream))
                                       : real_call<rewinddir>(stream);
}

void seekdir(DIR* stream, long place) {
  uint32_t directory;
  if (!is_listed(stream, &directory)) return real_call<seekdir>(stream, place);
  if (Stream* own = stream_of(dirfd(stream))) own->position = static_cast<uint64_t>(place);
}

long telldir(DIR* stream) {
  uint32_t directory;
  if (!is_listed(stream, &directory)) return real_call<telldir>(stream);
  const Stream* own = stream_of(dirfd(stream));
  return own == nullptr ? failure<long>(ENOMEM) : static_cast<long>(own->position);
}

ssize_t getdents64(int fd, void* buffer, size_t size) {
  uint32_t directory;
  if (!is_listed(fd, &directory)) return real_call<getdents64>(fd, buffer, size);
  Stream* own = stream_of(fd);
  if (own == nullptr) return failure<ssize_t>(ENOMEM);
  const int saved_errno = errno;
  size_t filled = 0;
  errno = 0;
  for (const struct dirent64* entry; (entry = peek(fd, directory, *own)) != nullptr;) {
    if (entry->d_reclen > size - filled) {
      if (filled == 0) return failure<ssize_t>(EINVAL);
      break;
    }
    memcpy(static_cast<char*>(buffer) + filled, entry, entry->d_reclen);
    filled += entry->d_reclen;
    ++own->position;
  }
  if (filled == 0 && errno != 0) return -1;
  errno = saved_errno;
  return static_cast<ssize_t>(filled);
}

int scandirat64(int directory, const char* path, struct dirent64*** list,
                int (*filter)(const struct dirent64*),
                int (*order)(const struct dirent64**, const struct dirent64**)) {
  if (!active()) return real_call<scandirat64>(directory, path, list, filter, order);
  const int saved_errno = errno;
  const int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = fd < 0 ? nullptr : fdopendir(fd);
  if (stream == nullptr && fd >= 0) close(fd);
  const int count = stream == nullptr ? -1 : scan(stream, list, filter, order);
  if (count >= 0) errno = saved_errno;
  return count;
}

int scandir64(const char* path, struct dirent64*** list, int (*filter)(const struct dirent64*),
              int (*order)(const struct dirent64**, const struct dirent64**)) {
  if (!active()) return real_call<scandir64>(path, list, filter, order);
  return scandirat64(AT_FDCWD, path, list, filter, order);
}

// The C library's glob reads directories by functions of the caller if asked to. These are ours,
// for any pattern: it may reach the root in the middle.
int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* result) {
  if (!active() || (flags & GLOB_ALTDIRFUNC) != 0)
    return real_call<glob64>(pattern, flags, on_error, result);
  result->gl_opendir = [](const char* path) -> void* { return opendir(path); };
  result->gl_readdir = [](void* stream) { return readdir64(static_cast<DIR*>(stream)); };
  result->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };
  result->gl_stat = [](const char* path, struct stat64* status) { return stat64(path, status); };
  result->gl_lstat = [](const char* path, struct stat64* status) { return lstat64(path, status); };
  const int code = real_call<glob64>(pattern, flags | GLOB_ALTDIRFUNC, on_error, result);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return code;
}

}  // extern "C"

asm(R"(
  also readdir, readdir64
  also readdir_r, readdir64_r
  also scandir, scandir64
  also scandirat, scandirat64
  also glob, glob64
)");
