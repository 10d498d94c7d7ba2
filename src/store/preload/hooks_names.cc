// Resolving names, and the working directory.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/preload/hooks.h"
#include "store/preload/shown.h"
#include "store/preload/text.h"

namespace millrace::store {
namespace {

ssize_t read_link(uint32_t index, char* buffer, size_t size) {
  const wire::CatalogueEntry entry = entry_at(index);
  if (entry.kind != EntryKind::kLink || size == 0) return failure<ssize_t>(EINVAL);
  const std::string_view target = client.catalogue.link_target(entry);
  const size_t copied = target.size() < size ? target.size() : size;
  memcpy(buffer, target.data(), copied);
  return static_cast<ssize_t>(copied);
}

// The name that programs see. Its length with the zero; 0 if it is too long.
size_t write_shown_name(uint32_t entry, char* out, size_t room) {
  if (client.root.size() + 2 > room) return 0;
  memcpy(out, client.root.data(), client.root.size());
  size_t size = client.root.size();
  if (entry != wire::kRootEntry) out[size++] = '/';
  const size_t left = room - size - 1;
  const size_t written = write_path(client.catalogue, entry, out + size, left);
  if (written >= left) return 0;
  out[size + written] = '\0';
  return size + written + 1;
}

struct Name {
  char text[kPathBytes];
};

// The same for the real name of what a program has created.
size_t write_shown_name(std::string_view real, char* out, size_t room) {
  std::string_view below = client.below_tree(real);
  while (!below.empty() && below.back() == '/') below.remove_suffix(1);
  if (client.root.size() + below.size() + 1 > room) return 0;
  Text(out, room).add(client.root).add(below);
  return client.root.size() + below.size() + 1;
}

// Copies the name to `out`, or to memory of the program's heap if that is null. A length of 0 means
// that the memory is as long as necessary.
template <typename Named>
char* give_name(Named entry, char* out, size_t room) {
  const hook::Scratch<Name> name;
  if (!name) return failure<char*>(ENOMEM);
  const size_t size = write_shown_name(entry, name->text, sizeof(name->text));
  if (size == 0) return failure<char*>(ENAMETOOLONG);
  if (room != 0 && size > room) return failure<char*>(ERANGE);
  if (out == nullptr) {
    out = static_cast<char*>(program_allocate(nullptr, room == 0 ? size : room));
    if (out == nullptr) return failure<char*>(ENOMEM);
  }
  memcpy(out, name->text, size);
  return out;
}

constinit Real<char*(const char*, char*)> real_realpath{"realpath"};

bool is_in_tree(const char* path) { return active() && client.below_tree(path).data() != nullptr; }

// The walk has followed all links already.
char* give_written_name(const char* real, char* out, size_t room) {
  static constinit Real<int(int, const char*, int, int)> exists{"faccessat"};
  if (exists(AT_FDCWD, real, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
  return give_name(std::string_view(real), out, room);
}

// The working directory, if a program has created it.
char* give_written_directory(char* out, size_t room) {
  const hook::Scratch<Name> name;
  if (!name) return failure<char*>(ENOMEM);
  static constinit Real<char*(char*, size_t)> real{"getcwd"};
  if (real(name->text, sizeof(name->text)) == nullptr) return nullptr;
  return give_name(std::string_view(name->text), out, room);
}

char* resolving(const char* path, char* resolved) {
  return on_path(
      AT_FDCWD, path, Last::kLook, [&](uint32_t entry) { return give_name(entry, resolved, 0); },
      [&](int, const char* other) {
        return is_in_tree(other) ? give_written_name(other, resolved, 0)
                                 : real_realpath(other, resolved);
      });
}

constinit Real<int(const char*)> real_chdir{"chdir"};

// read(path) reads the link at a real name. One that stands for a file of another node is none.
template <typename Read>
ssize_t reading_link(const char* real, Read read) {
  return !is_bad(real) && is_shown(real) ? failure<ssize_t>(EINVAL) : read(real);
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

ssize_t readlink(const char* path, char* buffer, size_t size) {
  static constinit Real<ssize_t(const char*, char*, size_t)> real{"readlink"};
  return on_path(
      AT_FDCWD, path, Last::kKeepLink,
      [&](uint32_t entry) { return read_link(entry, buffer, size); },
      [&](int, const char* other) {
        return reading_link(other, [&](const char* name) { return real(name, buffer, size); });
      });
}

ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t room) {
  static constinit Real<ssize_t(const char*, char*, size_t, size_t)> real{"__readlink_chk"};
  return on_path(
      AT_FDCWD, path, Last::kKeepLink,
      [&](uint32_t entry) { return read_link(entry, buffer, size < room ? size : room); },
      [&](int, const char* other) {
        return reading_link(other,
                            [&](const char* name) { return real(name, buffer, size, room); });
      });
}

ssize_t readlinkat(int directory, const char* path, char* buffer, size_t size) {
  static constinit Real<ssize_t(int, const char*, char*, size_t)> real{"readlinkat"};
  return on_path(
      directory, path, Last::kKeepLink,
      [&](uint32_t entry) { return read_link(entry, buffer, size); },
      [&](int base, const char* other) {
        return reading_link(other,
                            [&](const char* name) { return real(base, name, buffer, size); });
      });
}

ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, size_t size, size_t room) {
  static constinit Real<ssize_t(int, const char*, char*, size_t, size_t)> real{"__readlinkat_chk"};
  return on_path(
      directory, path, Last::kKeepLink,
      [&](uint32_t entry) { return read_link(entry, buffer, size < room ? size : room); },
      [&](int base, const char* other) {
        return reading_link(other,
                            [&](const char* name) { return real(base, name, buffer, size, room); });
      });
}

char* realpath(const char* path, char* resolved) { return resolving(path, resolved); }

char* __realpath_chk(const char* path, char* resolved, size_t room) {
  static constinit Real<char*(const char*, char*, size_t)> real{"__realpath_chk"};
  return on_path(
      AT_FDCWD, path, Last::kLook, [&](uint32_t entry) { return give_name(entry, resolved, room); },
      [&](int, const char* other) {
        return is_in_tree(other) ? give_written_name(other, resolved, room)
                                 : real(other, resolved, room);
      });
}

char* canonicalize_file_name(const char* path) { return resolving(path, nullptr); }

// The real directory is entered: calls that we do not see find it, and it survives exec.
int chdir(const char* path) {
  return on_path(
      AT_FDCWD, path, Last::kFollow,
      [&](uint32_t entry) {
        if (!is_directory(entry)) return failure<int>(ENOTDIR);
        const int result =
            with_real_path(entry, [&](const char* real) { return real_chdir(real); });
        forget_working_directory();
        return result;
      },
      [&](int, const char* other) {
        const int result = real_chdir(other);
        forget_working_directory();
        return result;
      });
}

int fchdir(int fd) {
  static constinit Real<int(int)> real{"fchdir"};
  const int result = real(fd);
  forget_working_directory();
  return result;
}

char* getcwd(char* buffer, size_t size) {
  static constinit Real<char*(char*, size_t)> real{"getcwd"};
  const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
  const bool is_written = active() && is_in_written_directory();
  if (entry == kNoEntry && !is_written) return real(buffer, size);
  if (buffer != nullptr && size == 0) return failure<char*>(EINVAL);
  return is_written ? give_written_directory(buffer, size) : give_name(entry, buffer, size);
}

char* __getcwd_chk(char* buffer, size_t size, size_t room) {
  static constinit Real<char*(char*, size_t, size_t)> real{"__getcwd_chk"};
  const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
  const bool is_written = active() && is_in_written_directory();
  if (entry == kNoEntry && !is_written) return real(buffer, size, room);
  if (size == 0) return failure<char*>(EINVAL);
  if (is_written) return give_written_directory(buffer, size < room ? size : room);
  return give_name(entry, buffer, size < room ? size : room);
}

char* get_current_dir_name() {
  static constinit Real<char*()> real{"get_current_dir_name"};
  const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
  if (active() && is_in_written_directory()) return give_written_directory(nullptr, 0);
  return entry == kNoEntry ? real() : give_name(entry, nullptr, 0);
}

}  // extern "C"
