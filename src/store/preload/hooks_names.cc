// Resolving names, the working directory, and other calls that take a path: limits, watches,
// handles and libraries.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <unistd.h>

#include "hook/text.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"

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

// Copies the name that programs see to `out`, or to memory of the program's heap if that is null. A
// length of 0 means that the memory is as long as necessary.
char* give_name(std::string_view relative, char* out, size_t room) {
  while (!relative.empty() && relative.back() == '/') relative.remove_suffix(1);
  const size_t size = client.root.size() + relative.size() + (relative.empty() ? 1 : 2);
  if (size > kPathBytes) return failure<char*>(ENAMETOOLONG);
  if (room != 0 && size > room) return failure<char*>(ERANGE);
  if (out == nullptr) out = static_cast<char*>(program_allocate(nullptr, room == 0 ? size : room));
  if (out == nullptr) return failure<char*>(ENOMEM);
  Text(out, size).add(client.root).add(relative.empty() ? "" : "/").add(relative);
  return out;
}

char* give_entry_name(uint32_t entry, char* out, size_t room) {
  const hook::Scratch<RealPath> path;
  if (!path) return failure<char*>(ENOMEM);
  return give_name({path->text, write_path(client.catalogue, entry, path->text, kPathBytes)}, out,
                   room);
}

// The working directory, if a program has created it.
char* give_created_directory(char* out, size_t room) {
  const hook::Scratch<hook::ScratchText> name;
  if (!name) return failure<char*>(ENOMEM);
  if (real_call<getcwd>(name->text, sizeof(name->text)) == nullptr) return nullptr;
  std::string_view below = client.below_upper(name->text);
  if (below.data() == nullptr) return real_call<getcwd>(out, room);  // it was moved away
  if (!below.empty()) below.remove_prefix(1);
  return give_name(below, out, room);
}

Last last_unless(bool keeps_link) { return keeps_link ? Last::kKeepLink : Last::kFollow; }

// The real directory is entered: calls that we do not see find it, and it survives exec.
int enter(const char* real) {
  const int result = real_call<chdir>(real);
  forget_working_directory();
  return result;
}

bool is_below_root(const char* path) {
  if (!active() || is_bad(path) || strchr(path, '/') == nullptr) return false;
  Lookup lookup;
  return lookup.find(AT_FDCWD, path, Last::kFollow).where != Where::kOutside;
}

[[gnu::noinline]] void* open_library(const char* path, int mode) {
  bool was_found = false;
  void* library = on_real_path(AT_FDCWD, path, Last::kFollow, [&](int, const char* real) -> void* {
    // The loader does not tell by errno that a file is missing.
    if (real_call<faccessat>(AT_FDCWD, real, F_OK, 0) != 0) return nullptr;
    was_found = true;
    void* opened = real_call<dlopen>(real, mode);
    if (opened == nullptr) errno = EINVAL;
    return opened;
  });
  return was_found ? library : real_call<dlopen>(path, mode);  // which sets the text of dlerror
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

ssize_t readlink(const char* path, char* buffer, size_t size) {
  return readlinkat(AT_FDCWD, path, buffer, size);
}

ssize_t readlinkat(int directory, const char* path, char* buffer, size_t size) {
  const ssize_t result = on_path(
      directory, path, Last::kKeepLink,
      [&](uint32_t entry) { return read_link(entry, buffer, size); },
      [&](int base, const char* other) {
        return real_call<readlinkat>(base, other, buffer, size);
      });
  return show_link(result, directory, path, buffer, size);
}

char* realpath(const char* path, char* resolved) {
  const auto real = [&](const char* other) { return real_call<realpath>(other, resolved); };
  if (!active() || is_bad(path)) return real(path);
  // The C library asks for the working directory, which may have been removed.
  const millrace::hook::Scratch<millrace::hook::ScratchText> before;
  if (*path != '/' && before &&
      millrace::hook::sys_getcwd(before->text, sizeof(before->text)) < 0) {
    return real(path);
  }
  Lookup lookup;
  Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
  if (place.where == Where::kOutside) {
    char* const result = real(path);
    if (result != nullptr || errno != ENOENT) return result;
    place = lookup.find_linked(AT_FDCWD, path, Last::kFollow);
    if (place.where == Where::kOutside) return failure<char*>(ENOENT);
  }
  if (place.where == Where::kInside) return give_entry_name(place.entry, resolved, 0);
  if (place.where == Where::kFailed) return failure<char*>(place.error);
  if (!place.is_created) return real(place.path);
  // The walk has followed all links.
  const bool exists = real_call<faccessat>(AT_FDCWD, place.path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  return exists ? give_name(place.relative, resolved, 0) : nullptr;
}

// Those of the C library end the program if its buffer is too small.
ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t room) {
  if (size > room) return real_call<__readlink_chk>(path, buffer, size, room);
  return readlink(path, buffer, size);
}

ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, size_t size, size_t room) {
  if (size <= room) return readlinkat(directory, path, buffer, size);
  return real_call<__readlinkat_chk>(directory, path, buffer, size, room);
}

char* __realpath_chk(const char* path, char* resolved, size_t room) {
  if (room >= PATH_MAX) return realpath(path, resolved);
  return real_call<__realpath_chk>(path, resolved, room);
}

char* __getcwd_chk(char* buffer, size_t size, size_t room) {
  if (size > room) return real_call<__getcwd_chk>(buffer, size, room);
  return getcwd(buffer, size);
}

char* canonicalize_file_name(const char* path) { return realpath(path, nullptr); }

int chdir(const char* path) {
  const auto inside = [](uint32_t entry) {
    return is_directory(entry) ? with_real_path(entry, enter) : failure<int>(ENOTDIR);
  };
  return on_path(AT_FDCWD, path, Last::kFollow, inside,
                 [](int, const char* other) { return enter(other); });
}

int fchdir(int fd) {
  const uint32_t entry = entry_of(fd);
  if (entry != kNoEntry && is_directory(entry)) return with_real_path(entry, enter);
  const int result = real_call<fchdir>(fd);
  forget_working_directory();
  return result;
}

char* getcwd(char* buffer, size_t size) {
  const uint32_t entry = active() ? working_directory_entry() : kNoEntry;
  const bool is_created = active() && is_created_directory(AT_FDCWD);
  if (entry == kNoEntry && !is_created) return real_call<getcwd>(buffer, size);
  if (buffer != nullptr && size == 0) return failure<char*>(EINVAL);
  return is_created ? give_created_directory(buffer, size) : give_entry_name(entry, buffer, size);
}

// The older getcwd, for PATH_MAX bytes.
char* getwd(char* buffer) {
  static constinit Real<char*(char*)> real{"getwd"};
  if (!active() || is_bad(buffer)) return real(buffer);
  return getcwd(buffer, PATH_MAX);
}

// The C library asks for the attributes without a hook.
key_t ftok(const char* path, int project) {
  struct stat status;
  if (stat(path, &status) != 0) return -1;
  const auto key = static_cast<uint32_t>((status.st_ino & 0xffff) | (status.st_dev & 0xff) << 16 |
                                         static_cast<uint64_t>(project & 0xff) << 24);
  return static_cast<key_t>(key);
}

char* get_current_dir_name() {
  const bool is_below =
      active() && (is_created_directory(AT_FDCWD) || working_directory_entry() != kNoEntry);
  return is_below ? getcwd(nullptr, 0) : real_call<get_current_dir_name>();
}

long pathconf(const char* path, int name) {
  const auto call = [&](const char* other) { return real_call<pathconf>(other, name); };
  Lookup lookup;
  const Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
  // Most limits do not depend on the path, and are known even if it does not exist. The path itself
  // may exist for the kernel: a file that a buffer is still about to remove.
  if (place.where == Where::kFailed) {
    const long value = call("/dev/null/missing");
    if (value < 0 && errno == ENOTDIR) errno = place.error;
    return value;
  }
  return on_real_path(AT_FDCWD, path, Last::kFollow,
                      [&](int, const char* other) { return call(other); });
}

// What programs create is watched where it is.
int inotify_add_watch(int fd, const char* path, uint32_t mask) {
  const auto watch_created = [&](uint32_t directory) {
    const millrace::hook::Scratch<RealPath> upper;
    make_upper_directories(directory);
    return upper && upper->in_upper(directory) ? real_call<inotify_add_watch>(fd, upper->text, mask)
                                               : -1;
  };
  return on_path(
      AT_FDCWD, path, last_unless((mask & IN_DONT_FOLLOW) != 0),
      [&](uint32_t entry) {
        const int watch = is_directory(entry) ? watch_created(entry) : -1;
        if (watch >= 0) return watch;
        // A dataset does not change: the service does, but never moves a file away.
        const uint32_t quiet = (mask & ~uint32_t{IN_ALL_EVENTS}) | IN_MOVE_SELF;
        return with_real_path(entry, [&](const char* other) {
          return real_call<inotify_add_watch>(fd, other, quiet);
        });
      },
      [&](int, const char* other) { return real_call<inotify_add_watch>(fd, other, mask); });
}

int fanotify_mark(int fd, unsigned flags, uint64_t mask, int directory, const char* path) {
  return on_real_path(directory, path, last_unless((flags & FAN_MARK_DONT_FOLLOW) != 0),
                      [&](int base, const char* other) {
                        return real_call<fanotify_mark>(fd, flags, mask, base, other);
                      });
}

int name_to_handle_at(int directory, const char* path, struct file_handle* handle, int* mount,
                      int flags) {
  if (!is_bad(path) && *path == '\0' && !make_real(directory)) return -1;
  return on_real_path(directory, path, last_unless((flags & AT_SYMLINK_FOLLOW) == 0),
                      [&](int base, const char* other) {
                        return real_call<name_to_handle_at>(base, other, handle, mount, flags);
                      });
}

// The loader opens libraries without hooks. It also looks at the caller, to find a name without a
// slash: so other calls jump there, and the caller stays the same.
void* dlopen(const char* path, int mode) {
  if (is_below_root(path)) return open_library(path, mode);
  return real_call<dlopen>(path, mode);
}

}  // extern "C"
