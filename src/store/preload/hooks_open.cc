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

namespace millrace::store {
namespace {

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0; }
bool creates(int flags) { return (flags & O_CREAT) != 0; }
bool is_exclusive(int flags) { return creates(flags) && (flags & O_EXCL) != 0; }
bool is_temporary(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

// Why an existing entry cannot be opened like this; 0: it can.
int refusal(uint32_t index, int flags) {
  const wire::CatalogueEntry entry = entry_at(index);
  if ((flags & O_PATH) != 0) return 0;
  if (is_temporary(flags)) return entry.kind == EntryKind::kDirectory ? 0 : ENOTDIR;
  if (is_exclusive(flags)) return EEXIST;
  if (entry.kind == EntryKind::kLink) return (flags & O_DIRECTORY) != 0 ? ENOTDIR : ELOOP;
  if (entry.kind == EntryKind::kDirectory) {
    return writes(flags) || creates(flags) ? EISDIR : 0;
  }
  if ((flags & O_DIRECTORY) != 0) return ENOTDIR;
  return writes(flags) ? EROFS : 0;
}

// A descriptor of the directory in the upper directory, if it is there: it is listed and synced
// with the names that programs have created.
int open_upper(uint32_t entry, int flags, mode_t mode) {
  const hook::Scratch<RealPath> path;
  if (!path || !path->in_upper(entry)) return failure<int>(ENOENT);
  const auto open = [&] {
    return with_new_fd([&] { return real_call<openat>(AT_FDCWD, path->text, flags, mode); });
  };
  const int fd = open();
  if (fd >= 0 || errno != ENOENT || !is_temporary(flags)) return fd;
  return make_upper_directories(entry) ? open() : failure<int>(ENOENT);
}

int open_directory(uint32_t entry, int flags) {
  const int saved_errno = errno;
  int fd = open_upper(entry, flags | O_DIRECTORY, 0);
  if (fd < 0) {
    errno = saved_errno;
    fd = with_real_path(entry, [&](const char* path) {
      return with_new_fd([&] { return real_call<openat>(AT_FDCWD, path, flags, 0); });
    });
  }
  if (fd < 0) return fd;
  note_opened(fd, entry);
  begin_listing(fd);
  return fd;
}

int open_entry(uint32_t entry, int flags, mode_t mode) {
  if (const int error = refusal(entry, flags); error != 0) return failure<int>(error);
  if (is_temporary(flags)) {
    if (client.upper.empty()) note_read_only();
    return client.upper.empty() ? failure<int>(EROFS) : open_upper(entry, flags, mode);
  }
  if (is_directory(entry)) return open_directory(entry, flags & ~(O_CREAT | O_EXCL));
  if (const int fast = open_fast(entry, flags & ~O_CREAT); fast >= 0) {
    count(client.state->counters.opens);
    return fast;
  }
  const int fd = with_real_path(entry, [&](const char* path) {
    return with_new_fd(
        [&] { return real_call<openat>(AT_FDCWD, path, flags & ~(O_CREAT | O_EXCL), 0); });
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
  const int fd = real_call<openat>(AT_FDCWD, path, flags, 0);
  if (fd >= 0 && is_confirmed(guessed, {below.data() + 1, below.size() - 1})) {
    note_opened(fd, guessed);
    return fd;
  }
  if (fd >= 0) hook::sys_close(fd);
  errno = saved_errno;
  return -1;
}

// Most opens: the plain path of a file that is on this node already. A lookup in a large catalogue
// misses the cache, so the kernel opens the file while the entry loads. -1: it is not such a path,
// or the file is not there yet; errno is not changed.
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
  const bool keeps = (flags & O_NOFOLLOW) != 0 || (is_exclusive(flags) && !is_temporary(flags));
  return keeps ? Last::kKeepLink : Last::kFollow;
}

// Opens a file that the buffer takes, or has. Another name, or one that must be opened in the upper
// directory: kNotBuffered; the buffer then has nothing under it.
int open_in_buffer(const Place& place, int flags, mode_t mode) {
  const bool may_change = writes(flags) || creates(flags);
  const bool exists = place.where == Where::kElsewhere;
  const bool is_new = !exists && place.is_new && creates(flags);
  const bool has_slash = is_new && place.path[strlen(place.path) - 1] == '/';
  if (!may_change || is_temporary(flags) || (!exists && !is_new) || has_slash ||
      !concerns_buffer(place)) {
    return kNotBuffered;
  }
  uint64_t id = 0;
  const int fd = creating(place, [&](const char*) {
    return with_new_fd([&] {
      const int opened = open_buffered(client.buffer, place.relative, flags, mode, &id);
      if (opened >= 0) return opened;
      errno = opened == kNotBuffered ? 0 : -opened;
      return opened == kNotBuffered ? kNotBuffered : -1;
    });
  });
  if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY && !in_vfork_child) buffered_writers.add(fd, id);
  if (fd != kNotBuffered) return fd;
  const int error = wait_native(client.buffer, place.relative);
  return error < 0 ? failure<int>(-error) : kNotBuffered;
}

// The kernel would follow a link outside, and create a file in the place of the root.
Place find_to_open(Lookup& lookup, int directory, const char* path, int flags) {
  const Place place = lookup.find(directory, path, last_of(flags));
  const bool may_create = creates(flags) && last_of(flags) == Last::kFollow;
  if (place.where != Where::kOutside || !may_create || !active()) return place;
  char target;
  if (hook::sys_readlinkat(directory, path, &target, sizeof(target)) < 0) return place;
  return lookup.find_linked(directory, path, last_of(flags));
}

// What open and fopen have in common: where a path leads, and what opens it there.
//   way.entry(entry)            a file of the pack
//   way.other(directory, path)  the real call, for any other path
//   way.created(path)           the real call, for a created file
//   way.buffered(fd)            what the buffer has opened, or could not
template <typename Way>
auto opening_place(int directory, const char* path, int flags, mode_t mode, const Way& way) {
  using Result = decltype(way.other(directory, path));
  Lookup lookup;
  Place place = find_to_open(lookup, directory, path, flags);
  if (place.where == Where::kOutside) {
    const Result result = way.other(directory, path);
    if (!has_failed(result) || errno != ENOENT) return result;
    place = lookup.find_linked(directory, path, last_of(flags));
    if (place.where == Where::kOutside) return failure<Result>(ENOENT);
  }
  if (place.where == Where::kInside) return way.entry(place.entry);
  if (client.has_buffer() && place.is_created) {
    const int fd = open_in_buffer(place, flags, mode);
    if (fd != kNotBuffered) return way.buffered(fd);
    if (writes(flags) || creates(flags)) place = lookup.find_again();
  }
  // A file in the buffer may be copied and removed there at any time.
  for (int tries = 0; place.is_buffered && tries < kMakeTries; ++tries) {
    const Result result = way.other(AT_FDCWD, place.path);
    if (!has_failed(result) || errno != ENOENT) return result;
    place = lookup.find_again();
  }
  if (place.where == Where::kFailed && !(place.is_new && creates(flags))) {
    return failure<Result>(place.error);
  }
  return creating(place, [&](const char* created) { return way.created(created); });
}

struct DescriptorWay {
  int flags;
  mode_t mode;

  int entry(uint32_t entry) const { return open_entry(entry, flags, mode); }
  int other(int directory, const char* path) const {
    return with_new_fd([&] { return real_call<openat>(directory, path, flags, mode); });
  }
  int created(const char* path) const {
    const int fd = other(AT_FDCWD, path);
    if (client.has_buffer()) begin_listing(fd);  // it may be a directory
    return fd;
  }
  int buffered(int fd) const { return fd; }
};

int opening(int directory, const char* path, int flags, mode_t mode) {
  if (const int fd = open_guessed(path, flags); fd >= 0) return fd;
  // The kernel ignores the others, too.
  if ((flags & O_PATH) != 0) flags &= O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
  return opening_place(directory, path, flags, mode, DescriptorWay{flags, mode});
}

mode_t mode_of(int flags, va_list arguments) {
  return creates(flags) || is_temporary(flags) ? va_arg(arguments, mode_t) : 0;
}

// Flags of open for a mode such as "r+".
int flags_of(const char* mode) {
  const int access = strchr(mode, '+') != nullptr ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  const int creation = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT : 0;
  return access | creation | (strchr(mode, 'x') != nullptr ? O_EXCL : 0);
}

// The mode without "x", for a file that was created just now.
struct StreamMode {
  char text[64];
};
StreamMode mode_of_existing(const char* mode) {
  StreamMode made = {};
  size_t size = 0;
  bool has_ended = false;  // the name of a character set follows
  for (const char* at = mode; *at != '\0' && size + 1 < sizeof(made.text); ++at) {
    has_ended |= *at == ',';
    if (*at != 'x' || has_ended) made.text[size++] = *at;
  }
  return made;
}

// The descriptor of a stream; -1 if it has none. Keeps errno.
int descriptor_of(FILE* stream) {
  if (!active() || is_bad(stream)) return -1;
  const int saved_errno = errno;
  const int fd = fileno_unlocked(stream);
  errno = saved_errno;
  return fd;
}

// open(path) for a path of the store or any other, open_descriptor(fd) for a file of the buffer.
template <typename Open, typename OpenDescriptor>
struct StreamWay {
  int flags;
  Open open;
  OpenDescriptor open_descriptor;

  FILE* entry(uint32_t entry) const {
    if (const int error = refusal(entry, flags); error != 0) return failure<FILE*>(error);
    FILE* stream = with_real_path(entry, open);
    if (stream == nullptr) return nullptr;
    const int fd = descriptor_of(stream);
    note_new_number(fd);
    note_opened(fd, entry);
    count(client.state->counters.opens);
    return stream;
  }
  FILE* other(int, const char* path) const {
    FILE* stream = open(path);
    if (stream != nullptr) note_new_number(descriptor_of(stream));
    return stream;
  }
  FILE* created(const char* path) const { return other(AT_FDCWD, path); }
  FILE* buffered(int fd) const { return fd < 0 ? nullptr : open_descriptor(fd); }
};

template <typename Open, typename OpenDescriptor>
FILE* opening_stream(const char* path, const char* mode, Open open,
                     OpenDescriptor open_descriptor) {
  if (!active() || is_bad(path) || is_bad(mode)) return open(path);
  const int flags = flags_of(mode);
  return opening_place(AT_FDCWD, path, flags, 0666,
                       StreamWay<Open, OpenDescriptor>{flags, open, open_descriptor});
}

// The last descriptor of this process that wrote a file of the buffer was closed; 0: none was.
// Returns false with errno if the queue could not be written.
bool end_writer(uint64_t id) {
  const int error = id == 0 ? 0 : note_closed(client.buffer, id);
  if (error < 0) errno = -error;
  return error == 0;
}

// A range is about to be closed: the drainer waits until it is.
void before_closing(unsigned first, unsigned last) {
  if (!active()) return;
  forget_range(first, last);
  disown_range(first, last);
  for (unsigned fd = first; fd <= last && fd < BufferedWriters::kNumbers; ++fd) {
    end_writer(buffered_writers.take(static_cast<int>(fd)));
  }
}

// body() copies a descriptor.
template <typename Body>
int copying_number(int fd, Body body) {
  const int copy = with_new_fd([&] { return natively(fd, body); });
  if (copy < 0 || !active()) return copy;
  note_copied(fd, copy);
  if (!in_vfork_child) buffered_writers.duplicated(fd, copy);
  return copy;
}

template <auto kHook, typename... Flags>
int duplicating(int fd, int copy, Flags... flags) {
  const auto duplicate = [&] { return real_call<kHook>(fd, copy, flags...); };
  if (fd == copy) return natively(fd, duplicate);
  const uint64_t closed = buffered_writers.take(copy);
  const int made = copying_number(fd, [&] { return replacing(copy, duplicate); });
  end_writer(closed);
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

void set_close_on_exec(unsigned first, unsigned last) {
  for (int fd = 0; fd <= fast_files.highest() && !in_vfork_child; ++fd) {
    const auto number = static_cast<unsigned>(fd);
    if (number >= first && number <= last) fast_files.set_flags(fd, 0, O_CLOEXEC);
  }
}

// The call replaces the X in a name. Below the root, it gets the real path, with the same end.
template <auto kHook, typename... Arguments>
auto making_temporary(char* name, Arguments... arguments) {
  using Result = decltype(kHook(name, arguments...));
  const auto make = [&](char* real) {
    const Result result = real_call<kHook>(real, arguments...);
    if constexpr (!std::is_pointer_v<Result>) newly_made(result);
    return result;
  };
  if (!active() || is_bad(name)) return make(name);
  return creating_path(AT_FDCWD, name, [&](int, const char* other) -> Result {
    if (other == name) return make(name);
    const hook::Scratch<RealPath> real;
    const size_t size = strlen(other);
    if (!real || size >= sizeof(real->text)) return failure<Result>(ENOMEM);
    memcpy(real->text, other, size + 1);
    const Result result = make(real->text);
    if (has_failed(result)) return result;
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
  return opening(AT_FDCWD, path, flags, mode);
}

int __open_2(const char* path, int flags) { return opening(AT_FDCWD, path, flags, 0); }

int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opening(directory, path, flags, mode);
}

int __openat_2(int directory, const char* path, int flags) {
  return opening(directory, path, flags, 0);
}
int creat(const char* path, mode_t mode) {
  return opening(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

FILE* fopen(const char* path, const char* mode) {
  return opening_stream(
      path, mode,
      [&](const char* other) {
        FILE* stream = real_call<fopen>(other, mode);
        const bool has_room = stream != nullptr || errno != EMFILE || !close_parked();
        return has_room ? stream : real_call<fopen>(other, mode);
      },
      [&](int fd) {
        FILE* stream = real_call<fdopen>(fd, mode);
        if (stream == nullptr) close(fd);
        return stream;
      });
}

// Without a path, it changes the mode of the stream.
FILE* freopen(const char* path, const char* mode, FILE* stream) {
  forget(descriptor_of(stream));
  if (path == nullptr) return real_call<freopen>(path, mode, stream);
  const uint64_t closed = buffered_writers.take(descriptor_of(stream));
  bool is_called = false;
  const auto reopen = [&](const char* real, const char* real_mode) {
    is_called = true;
    return real_call<freopen>(real, real_mode, stream);
  };
  FILE* opened = opening_stream(
      path, mode, [&](const char* other) { return reopen(other, mode); },
      [&](int fd) {  // the stream keeps its number, as the C library has it
        const millrace::hook::Scratch<RealPath> name;
        const uint64_t id = buffered_writers.id_of(fd);
        FILE* again = nullptr;
        if (name && write_data_path(client.buffer, id, name->text, sizeof(name->text))) {
          again = reopen(name->text, mode_of_existing(mode).text);
        }
        if (again != nullptr) buffered_writers.add(descriptor_of(again), id);
        close(fd);
        return again;
      });
  if (opened == nullptr && !is_called) {  // the stream is closed, whatever was wrong
    const int error = errno;
    reopen("", "r");
    errno = error;
  }
  end_writer(closed);
  return opened;
}

int fclose(FILE* stream) {
  const int fd = descriptor_of(stream);
  forget(fd);
  const uint64_t closed = buffered_writers.take(fd);
  const int result = real_call<fclose>(stream);
  if (fd >= 0 && fd <= STDERR_FILENO) note_low_closed();
  return end_writer(closed) ? result : EOF;
}

int close(int fd) {
  if (int result; close_fast(fd, &result)) return result;
  if (active()) forget(fd);
  const uint64_t closed = buffered_writers.take(fd);
  const int result = real_call<close>(fd);
  if (result == 0 && fd <= STDERR_FILENO) note_low_closed();
  return end_writer(closed) ? result : -1;
}

int close_range(unsigned first, unsigned last, int flags) {
  constexpr int kKnownFlags = static_cast<int>(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE);
  const bool is_valid = first <= last && (flags & ~kKnownFlags) == 0;
  if (is_valid && (static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) != 0) {
    set_close_on_exec(first, last);
  } else if (is_valid) {
    before_closing(first, last);
  }
  return real_call<close_range>(first, last, flags);
}

void closefrom(int first) {
  before_closing(first < 0 ? 0 : static_cast<unsigned>(first), ~0u);
  real_call<closefrom>(first);
}

int dup(int fd) {
  return copying_number(fd, [&] { return real_call<dup>(fd); });
}
int dup2(int fd, int copy) { return duplicating<dup2>(fd, copy); }
int dup3(int fd, int copy, int flags) { return duplicating<dup3>(fd, copy, flags); }

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (int result; fcntl_fast(fd, command, argument, &result)) return result;
  const auto call = [&] { return real_call<fcntl>(fd, command, argument); };
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copying_number(fd, call)
                                                          : natively(fd, call);
}

int mkstemp(char* name) { return making_temporary<mkstemp>(name); }
int mkostemp(char* name, int flags) { return making_temporary<mkostemp>(name, flags); }
int mkstemps(char* name, int suffix) { return making_temporary<mkstemps>(name, suffix); }
int mkostemps(char* name, int suffix, int flags) {
  return making_temporary<mkostemps>(name, suffix, flags);
}
char* mkdtemp(char* name) { return making_temporary<mkdtemp>(name); }

}  // extern "C"

asm("names_64 open, openat, creat, fopen, freopen, fcntl, mkstemp, mkostemp, mkstemps, mkostemps");
asm(R"(
  also __open, open
  also __open64, open
  also __open64_2, __open_2
  also __openat64_2, __openat_2
  also __close, close
  also __dup2, dup2
  also __fcntl, fcntl
)");
