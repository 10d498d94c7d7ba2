#include "store/preload/listing.h"

#include <fcntl.h>

#include <cstring>

#include "hook/syscall.h"
#include "hook/text.h"
#include "store/preload/client.h"

namespace millrace::store {
namespace {

constexpr size_t kReadBytes = 32 * 1024;

size_t record_bytes(size_t name_size) {
  return (offsetof(struct dirent64, d_name) + name_size + 1 + 7) & ~size_t{7};
}

bool is_dot(std::string_view name) { return name == "." || name == ".."; }

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
  if (is_dot(name)) return entry == wire::kNoEntry;
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

}  // namespace

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
  if (names < 0) return names == -ENOENT || names == -ENOTDIR ? 0 : -names;
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

}  // namespace millrace::store
