// open, fopen, and what makes or ends descriptors.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hook/syscall.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"
#include "store/preload/shown.h"
#include "store/preload/writers.h"

namespace millrace::store {
namespace {

constinit Real<int(int, const char*, int, ...)> real_openat{"openat"};
constinit Real<FILE*(const char*, const char*)> real_fopen{"fopen"};
constinit Real<FILE*(const char*, const char*, FILE*)> real_freopen{"freopen"};

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0; }
bool is_temporary(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

// Why an existing entry cannot be opened like this; 0: it can.
int refusal(uint32_t index, int flags) {
  const wire::CatalogueEntry entry = entry_at(index);
  if ((flags & O_PATH) != 0) return 0;
  if (is_temporary(flags)) return EOPNOTSUPP;  // programs then create a name
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return EEXIST;
  if (entry.kind == EntryKind::kLink) return ELOOP;
  if (entry.kind == EntryKind::kDirectory) {
    return writes(flags) || (flags & O_CREAT) != 0 ? EISDIR : 0;
  }
  if ((flags & O_DIRECTORY) != 0) return ENOTDIR;
  return writes(flags) ? EROFS : 0;
}

int open_entry(uint32_t entry, int flags) {
  if (const int error = refusal(entry, flags); error != 0) return failure<int>(error);
  if (const int fast = open_fast(entry, flags & ~O_CREAT); fast >= 0) {
    count(client.state->counters.opens);
    return fast;
  }
  const int fd = with_real_path(entry, [&](const char* path) {
    return making_number(
        [&] { return real_openat.get()(AT_FDCWD, path, flags & ~(O_CREAT | O_EXCL), 0); });
  });
  if (fd < 0) return fd;
  note_opened(fd, entry);
  count(client.state->counters.opens);
  return fd;
}

bool is_confirmed(uint32_t guessed, std::string_view relative) {
  return client.catalogue.has_path(guessed, relative) && entry_at(guessed).kind != EntryKind::kLink;
}

// The real file of a path below the root, which is `guessed` if the path is confirmed.
int open_guessed_in_tree(uint32_t guessed, std::string_view below, int flags) {
  char path[kShortPathBytes];
  if (client.tree.size() + below.size() >= sizeof(path)) return -1;
  memcpy(path, client.tree.data(), client.tree.size());
  memcpy(path + client.tree.size(), below.data(), below.size());
  path[client.tree.size() + below.size()] = '\0';
  const int saved_errno = errno;
  const int fd = real_openat.get()(AT_FDCWD, path, flags, 0);
  if (fd >= 0 && is_confirmed(guessed, {below.data() + 1, below.size() - 1})) {
    note_opened(fd, guessed);
    return fd;
  }
  if (fd >= 0) hook::sys_close(fd);
  errno = saved_errno;
  return -1;
}

// Most opens: the plain path of a file that is on this node already. To find a path in a large
// catalogue is to wait for memory. So there is other work until the entry arrives: the kernel opens
// the file, and the path is compared afterwards. -1: it is not such a path, or the file is not
// there yet; errno is not changed.
int open_guessed(const char* path, int flags) {
  constexpr int kPlainFlags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_LARGEFILE;
  if (!active() || (flags & ~kPlainFlags) != 0 || is_bad(path)) return -1;
  const std::string_view below = client.below(path);
  if (below.size() < 2) return -1;
  const std::string_view relative = {below.data() + 1, below.size() - 1};
  const uint32_t guessed = client.catalogue.guess(relative);
  if (guessed == kNoEntry) return -1;
  int fd = -1;
  if (client.arena == nullptr) {
    fd = open_guessed_in_tree(guessed, below, flags);
  } else {
    __builtin_prefetch(&client.places[guessed]);
    if (is_confirmed(guessed, relative)) fd = open_fast(guessed, flags);
  }
  if (fd >= 0) count(client.state->counters.opens);
  return fd;
}

// O_CREAT with O_EXCL does not follow a link either.
Last last_of(int flags) {
  const bool keeps = (flags & O_NOFOLLOW) != 0 ||
                     ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0 && !is_temporary(flags));
  return keeps ? Last::kKeepLink : Last::kFollow;
}

// After note_new_number.
int opened_written(int fd, const Place& place, int flags) {
  if (fd >= 0 && place.is_written && writes(flags) && is_shared()) writers.add(fd);
  return fd;
}

// Whether the open may create the file, or write one that a program has created. The service hears
// of it before it happens.
bool creates(const Place& place, int flags) {
  if (!place.is_written || (!writes(flags) && (flags & O_CREAT) == 0)) return false;
  const bool exists = place.where != Where::kFailed;
  return (exists || (flags & O_CREAT) != 0) && can_create(place);
}

// A file of another node that a program opens for writing becomes one of this node. 0, or an errno
// value.
int claim_name(int directory, const char* path, int flags) {
  const bool is_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  if (!writes(flags) || is_new) return 0;
  return take_named(directory, path, /*needs_bytes=*/(flags & O_TRUNC) == 0);
}

// With O_NOFOLLOW, a name that stands for a file of another node is still a file.
Place find_to_open(Lookup& lookup, int directory, const char* path, int flags) {
  const Place place = lookup.find(directory, path, last_of(flags));
  const bool is_kept = (flags & O_NOFOLLOW) != 0 && (flags & O_EXCL) == 0 &&
                       place.where == Where::kElsewhere && place.is_written;
  return is_kept && is_shown(place.path) ? lookup.find(directory, path, Last::kFollow) : place;
}

template <typename Outside>
int opening(int directory, const char* path, int flags, Outside outside) {
  if (const int fd = open_guessed(path, flags); fd >= 0) return fd;
  if (const int error = claim_name(directory, path, flags); error != 0) return failure<int>(error);
  Lookup lookup;
  Place place = find_to_open(lookup, directory, path, flags);
  if (place.where == Where::kOutside) {
    const int fd = making_number([&] { return outside(directory, path); });
    if (fd >= 0 || errno != ENOENT) return fd;
    place = lookup.find_linked(directory, path, last_of(flags));
    if (place.where == Where::kOutside) return fd;
  }
  if (place.where == Where::kInside) return open_entry(place.entry, flags);
  if (creates(place, flags) || place.where == Where::kElsewhere) {
    const int fd = making_number([&] { return outside(AT_FDCWD, place.path); });
    return opened_written(fd, place, flags);
  }
  return failure<int>(place.error);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || is_temporary(flags) ? va_arg(arguments, mode_t) : 0;
}

// Flags of open for a mode such as "r+".
int flags_of(const char* mode) {
  const int access = strchr(mode, '+') != nullptr ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  const int creation = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT : 0;
  return access | creation | (strchr(mode, 'x') != nullptr ? O_EXCL : 0);
}

// Of a stream; -1 if it has none. Keeps errno.
int descriptor_of(FILE* stream) {
  if (!active() || is_bad(stream)) return -1;
  const int saved_errno = errno;
  const int fd = fileno_unlocked(stream);
  errno = saved_errno;
  return fd;
}

// open(path) for a path of the store or any other.
template <typename Open>
FILE* opening_stream(const char* path, const char* mode, Open open) {
  if (!active() || is_bad(path) || is_bad(mode)) return open(path);
  const int flags = flags_of(mode);
  if (const int error = claim_name(AT_FDCWD, path, flags); error != 0) {
    return failure<FILE*>(error);
  }
  Lookup lookup;
  Place place = lookup.find(AT_FDCWD, path, last_of(flags));
  const auto open_other = [&](const char* other) {
    FILE* stream = open(other);
    if (stream != nullptr) note_new_number(descriptor_of(stream));
    return stream;
  };
  if (place.where == Where::kOutside) {
    FILE* stream = open_other(path);
    if (stream != nullptr || errno != ENOENT) return stream;
    place = lookup.find_linked(AT_FDCWD, path, last_of(flags));
    if (place.where == Where::kOutside) return failure<FILE*>(ENOENT);
  }
  if (creates(place, flags) || place.where == Where::kElsewhere) {
    FILE* stream = open_other(place.path);
    opened_written(descriptor_of(stream), place, flags);
    return stream;
  }
  if (place.where == Where::kFailed) return failure<FILE*>(place.error);
  if (const int error = refusal(place.entry, flags); error != 0) return failure<FILE*>(error);
  FILE* stream = with_real_path(place.entry, open);
  if (stream == nullptr) return nullptr;
  const int fd = descriptor_of(stream);
  note_new_number(fd);
  note_opened(fd, place.entry);
  count(client.state->counters.opens);
  return stream;
}

// body() copies a descriptor, which writes the same file.
template <typename Body>
int copying_number(int fd, Body body) {
  const bool is_writer = writers.has(fd);
  const int copy = making_number([&] { return natively(fd, body); });
  if (copy >= 0 && is_writer) writers.add(copy);
  return copy;
}

template <typename Duplicate>
int duplicating(int fd, int copy, Duplicate duplicate) {
  if (fd == copy) return copying_number(fd, duplicate);
  const bool ends_writer = writers.has(copy);
  const int made = copying_number(fd, [&] { return replacing(copy, duplicate); });
  if (made >= 0 && ends_writer) share_names();
  return made;
}

// What F_GETFL shows. The kernel adds O_LARGEFILE, which the headers define as 0.
int shown_flags(const FastFile& file) {
#if defined(__x86_64__)
  constexpr int kLargeFile = 0100000;
#else
  constexpr int kLargeFile = 0400000;
#endif
  return (static_cast<int>(file.flags) & (O_NOFOLLOW | O_NONBLOCK)) | kLargeFile;
}

// The commands that a fast descriptor answers by itself. False: it is another one, or not fast.
bool fcntl_fast(int fd, int command, void* argument, int* result) {
  FastFile file;
  if (fast_files.look(fd, file) != FastFiles::State::kOpen) return false;
  *result = 0;
  if (command == F_GETFD) {
    *result = (file.flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0;
  } else if (command == F_GETFL) {
    *result = shown_flags(file);
  } else if (command == F_SETFD && !in_vfork_child) {
    const bool closes = (reinterpret_cast<intptr_t>(argument) & FD_CLOEXEC) != 0;
    return fast_files.set_flags(fd, O_CLOEXEC, closes ? O_CLOEXEC : 0);
  } else {
    return false;
  }
  return true;
}

void inherit_no_more(unsigned first, unsigned last) {
  for (int fd = 0; fd <= fast_files.highest() && !in_vfork_child; ++fd) {
    const auto number = static_cast<unsigned>(fd);
    if (number >= first && number <= last) fast_files.set_flags(fd, 0, O_CLOEXEC);
  }
}

// make(name) replaces the X in a name. Below the root, it gets the real name, which ends alike.
template <typename Make>
auto making_temporary(char* name, Make make) {
  using Result = decltype(make(name));
  if (!active() || is_bad(name)) return make(name);
  return creating_path(AT_FDCWD, name, [&](int, const char* other) -> Result {
    if (other == name) return make(name);
    const hook::Scratch<RealPath> real;
    const size_t size = strlen(other);
    if (!real || size >= sizeof(real->text)) return failure<Result>(ENOMEM);
    memcpy(real->text, other, size + 1);
    const Result result = make(real->text);
    if (has_failed(result)) return result;
    if constexpr (std::is_same_v<Result, int>) {
      if (is_shared()) writers.add(result);
    }
    const char* last = strrchr(real->text, '/') + 1;
    const size_t last_size = strlen(last);
    memcpy(name + strlen(name) - last_size, last, last_size);
    if constexpr (std::is_pointer_v<Result>) return name;
    return result;
  });
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opening(AT_FDCWD, path, flags, [&](int directory, const char* other) {
    return real_openat.get()(directory, other, flags, mode);
  });
}

int __open_2(const char* path, int flags) {
  return opening(AT_FDCWD, path, flags, [&](int directory, const char* other) {
    return real_openat.get()(directory, other, flags, 0);
  });
}

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opening(directory, path, flags, [&](int base, const char* other) {
    return real_openat.get()(base, other, flags, mode);
  });
}

int __openat_2(int directory, const char* path, int flags) {
  return opening(directory, path, flags, [&](int base, const char* other) {
    return real_openat.get()(base, other, flags, 0);
  });
}

int creat(const char* path, mode_t mode) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  return opening(AT_FDCWD, path, kFlags, [&](int directory, const char* other) {
    return real_openat.get()(directory, other, kFlags, mode);
  });
}

FILE* fopen(const char* path, const char* mode) {
  return opening_stream(path, mode, [&](const char* other) {
    FILE* stream = real_fopen(other, mode);
    const bool has_room = stream != nullptr || errno != EMFILE || !close_parked();
    return has_room ? stream : real_fopen(other, mode);
  });
}

// Without a path, it changes the mode of the stream.
FILE* freopen(const char* path, const char* mode, FILE* stream) {
  forget(descriptor_of(stream));
  if (path == nullptr) return real_freopen(path, mode, stream);
  const bool ends_writer = writers.take(descriptor_of(stream));
  const auto open_again = [&](const char* other) {
    FILE* const opened = real_freopen(other, mode, stream);
    if (ends_writer) share_names();
    return opened;
  };
  return opening_stream(path, mode, open_again);
}

int fclose(FILE* stream) {
  static constinit Real<int(FILE*)> real{"fclose"};
  const int fd = descriptor_of(stream);
  forget(fd);
  const bool ends_writer = writers.take(fd);
  const int result = real(stream);
  if (ends_writer) share_names();
  if (fd >= 0 && fd <= STDERR_FILENO) note_low_closed();
  return result;
}

int close(int fd) {
  static constinit Real<int(int)> real{"close"};
  if (int result; close_fast(fd, &result)) return result;
  if (active()) forget(fd);
  const bool ends_writer = writers.take(fd);
  const int result = real(fd);
  if (ends_writer) share_names();
  if (result == 0 && fd <= STDERR_FILENO) note_low_closed();
  return result;
}

int close_range(unsigned first, unsigned last, int flags) {
  static constinit Real<int(unsigned, unsigned, int)> real{"close_range"};
  constexpr int kKnownFlags = static_cast<int>(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE);
  const bool is_valid = first <= last && (flags & ~kKnownFlags) == 0;
  bool ends_writers = false;
  if (is_valid && (flags & CLOSE_RANGE_CLOEXEC) != 0) {
    inherit_no_more(first, last);
  } else if (is_valid && active()) {
    forget_range(first, last);
    disown_range(first, last);
    ends_writers = writers.take_range(first, last);
  }
  const int result = real(first, last, flags);
  if (ends_writers) share_names();
  return result;
}

void closefrom(int first) {
  static constinit Real<void(int)> real{"closefrom"};
  const unsigned begin = first < 0 ? 0 : static_cast<unsigned>(first);
  if (active()) {
    forget_range(begin, ~0u);
    disown_range(begin, ~0u);
  }
  const bool ends_writers = writers.take_range(begin, ~0u);
  real(first);
  if (ends_writers) share_names();
}

int dup(int fd) {
  static constinit Real<int(int)> real{"dup"};
  return copying_number(fd, [&] { return real(fd); });
}

int dup2(int fd, int copy) {
  static constinit Real<int(int, int)> real{"dup2"};
  return duplicating(fd, copy, [&] { return real(fd, copy); });
}

int dup3(int fd, int copy, int flags) {
  static constinit Real<int(int, int, int)> real{"dup3"};
  return duplicating(fd, copy, [&] { return real(fd, copy, flags); });
}

int fcntl(int fd, int command, ...) {
  static constinit Real<int(int, int, ...)> real{"fcntl"};
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (int result; fcntl_fast(fd, command, argument, &result)) return result;
  const auto call = [&] { return real.get()(fd, command, argument); };
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copying_number(fd, call)
                                                          : natively(fd, call);
}

int mkstemp(char* name) {
  static constinit Real<int(char*)> real{"mkstemp"};
  return newly_made(making_temporary(name, [&](char* real_name) { return real(real_name); }));
}

int mkostemp(char* name, int flags) {
  static constinit Real<int(char*, int)> real{"mkostemp"};
  return newly_made(
      making_temporary(name, [&](char* real_name) { return real(real_name, flags); }));
}

int mkstemps(char* name, int suffix) {
  static constinit Real<int(char*, int)> real{"mkstemps"};
  return newly_made(
      making_temporary(name, [&](char* real_name) { return real(real_name, suffix); }));
}

int mkostemps(char* name, int suffix, int flags) {
  static constinit Real<int(char*, int, int)> real{"mkostemps"};
  return newly_made(
      making_temporary(name, [&](char* real_name) { return real(real_name, suffix, flags); }));
}

char* mkdtemp(char* name) {
  static constinit Real<char*(char*)> real{"mkdtemp"};
  return making_temporary(name, [&](char* real_name) { return real(real_name); });
}

}  // extern "C"

// Other names of the same calls. Defined in assembly, because headers declare some of them with
// types of their own, of the same layout.
asm(R"(
  .globl open64
  .set open64, open
  .globl __open
  .set __open, open
  .globl __open64
  .set __open64, open
  .globl __open64_2
  .set __open64_2, __open_2
  .globl openat64
  .set openat64, openat
  .globl __openat64_2
  .set __openat64_2, __openat_2
  .globl creat64
  .set creat64, creat
  .globl fopen64
  .set fopen64, fopen
  .globl freopen64
  .set freopen64, freopen
  .globl __close
  .set __close, close
  .globl __dup2
  .set __dup2, dup2
  .globl fcntl64
  .set fcntl64, fcntl
  .globl __fcntl
  .set __fcntl, fcntl
  .globl mkstemp64
  .set mkstemp64, mkstemp
  .globl mkostemp64
  .set mkostemp64, mkostemp
  .globl mkstemps64
  .set mkstemps64, mkstemps
  .globl mkostemps64
  .set mkostemps64, mkostemps
)");
