// Hooks: templates for the kinds of hooked calls. A hook says what happens to a path below the
// root, and what the real call is. exports.map lists every hooked symbol.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "hook/real.h"
#include "store/preload/lookup.h"

namespace millrace::store {

using hook::Real;
using hook::real_call;
using wire::EntryKind;

inline constexpr uint32_t kNoEntry = wire::kNoEntry;

inline wire::CatalogueEntry entry_at(uint32_t entry) { return client.catalogue.entry(entry); }
inline bool is_directory(uint32_t entry) { return entry_at(entry).kind == EntryKind::kDirectory; }

// What stat shows for an entry of the catalogue.
void fill_status(uint32_t entry, struct stat* status);
void fill_status(uint32_t entry, struct statx* status);

// fd was opened for a directory, and will be listed from its begin.
void begin_listing(int fd);

// For flags of calls whose names end in "at".
inline Last last_of_at(int flags) {
  return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::kKeepLink : Last::kFollow;
}

// inside(entry) for a path of the store, outside(directory, path) for others. `outside` may get
// another path: that of a link which leaves the root.
template <typename Inside, typename Outside>
auto on_path(int directory, const char* path, Last last, Inside inside, Outside outside) {
  using Result = decltype(outside(directory, path));
  Lookup lookup;
  Place place = lookup.find(directory, path, last);
  if (place.where == Where::kOutside) {
    const Result result = outside(directory, path);
    if (!has_failed(result) || errno != ENOENT) return result;
    place = lookup.find_linked(directory, path, last);
    if (place.where == Where::kOutside) return result;
  }
  // A file in the buffer may be copied and removed there at any time.
  for (int tries = 0; place.is_buffered && tries < kMakeTries; ++tries) {
    const Result result = outside(AT_FDCWD, place.path);
    if (!has_failed(result) || errno != ENOENT) return result;
    place = lookup.find_again();
  }
  if (place.where == Where::kInside) return static_cast<Result>(inside(place.entry));
  if (place.where == Where::kElsewhere) return outside(AT_FDCWD, place.path);
  return failure<Result>(place.error);
}

// call(directory, path) with the real name of an entry, or another path. The call does not change
// the file, and reads it only if it opens it.
template <typename Call>
auto on_real_path(int directory, const char* path, Last last, Call call) {
  const auto inside = [&](uint32_t entry) {
    return with_real_path(entry, [&](const char* real) { return call(AT_FDCWD, real); });
  };
  return on_path(directory, path, last, inside, call);
}

// Whether the buffer has to do with a created name.
inline bool concerns_buffer(const Place& place) {
  return client.has_buffer() && place.is_created &&
         (place.is_buffered || is_buffered_name(client.buffer, place.relative) ||
          has_buffered(client.buffer, place.relative));
}

// Waits until the buffer has nothing under the name, so that the upper directory decides. False
// with errno if that fails.
inline bool leave_buffer(int directory, const char* path, Last last) {
  if (!active() || !client.has_buffer()) return true;
  Lookup lookup;
  const Place place = lookup.find_anywhere(directory, path, last);
  if (!concerns_buffer(place)) return true;
  const int error = wait_native(client.buffer, place.relative);
  if (error < 0) errno = -error;
  return error == 0;
}

// The same for a call whose first argument is the path.
template <auto kHook, typename Inside, typename... Arguments>
auto on_first_path(Last last, Inside inside, const char* path, Arguments... arguments) {
  return on_path(AT_FDCWD, path, last, inside,
                 [&](int, const char* other) { return real_call<kHook>(other, arguments...); });
}

// A call that changes what exists: refused for what is in the catalogue.
template <typename Outside>
auto changing_path(int directory, const char* path, Last last, Outside outside) {
  using Result = decltype(outside(directory, path));
  if (!leave_buffer(directory, path, last)) return failure<Result>(errno);
  return on_path(directory, path, last, [](uint32_t) { return failure<Result>(EROFS); }, outside);
}

template <auto kHook, typename... Arguments>
auto changing(Last last, const char* path, Arguments... arguments) {
  return changing_path(AT_FDCWD, path, last, [&](int, const char* other) {
    return real_call<kHook>(other, arguments...);
  });
}
template <auto kHook, typename... Arguments>
auto changing_at(Last last, int directory, const char* path, Arguments... arguments) {
  return changing_path(directory, path, last, [&](int base, const char* other) {
    return real_call<kHook>(base, other, arguments...);
  });
}

// make(path) creates the name of a place that the catalogue lacks, in the upper directory. A
// directory of the catalogue that is missing there is made first.
template <typename Make>
auto creating(const Place& place, Make make) {
  using Result = decltype(make(place.path));
  if (place.is_new && client.upper.empty()) {
    note_read_only();
    return failure<Result>(EROFS);
  }
  if (place.path == nullptr) return failure<Result>(place.error);
  const int saved_errno = errno;
  const Result result = make(place.path);
  if (!place.is_created || !has_failed(result) || errno != ENOENT) return result;
  if (!make_upper_directories(place.entry)) return failure<Result>(ENOENT);
  errno = saved_errno;
  return make(place.path);
}

// A call that creates a name.
template <typename Outside>
auto creating_path(int directory, const char* path, Outside outside) {
  using Result = decltype(outside(directory, path));
  if (!leave_buffer(directory, path, Last::kName)) return failure<Result>(errno);
  Lookup lookup;
  const Place place = lookup.find(directory, path, Last::kName);
  if (place.where == Where::kInside) return failure<Result>(EEXIST);
  if (place.where == Where::kOutside) return outside(directory, path);
  if (place.where == Where::kFailed && !place.is_new) return failure<Result>(place.error);
  return creating(place, [&](const char* other) { return outside(AT_FDCWD, other); });
}

template <auto kHook, typename... Arguments>
auto creating_at(int directory, const char* path, Arguments... arguments) {
  return creating_path(directory, path, [&](int base, const char* other) {
    return real_call<kHook>(base, other, arguments...);
  });
}

// A call that changes a descriptor's file. One of the buffer is copied when its writer closes it; a
// change through another descriptor might come too late.
template <auto kHook, typename... Arguments>
int changing_descriptor(int fd, Arguments... arguments) {
  if (entry_of(fd) != kNoEntry) return failure<int>(EROFS);
  if (buffered_writers.id_of(fd) == 0 && is_in_buffer(fd)) return failure<int>(EOPNOTSUPP);
  return real_call<kHook>(fd, arguments...);
}

// Memory that the program will free. The C library promises that for these calls, so it must be the
// program's own heap: not the next library's, but the first one.
inline void* program_allocate(void* memory, size_t size) {
  static constinit std::atomic<void*> function{nullptr};
  void* found = function.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = dlsym(RTLD_DEFAULT, "realloc");
    function.store(found, std::memory_order_relaxed);
  }
  if (found == nullptr) return nullptr;
  return reinterpret_cast<void* (*)(void*, size_t)>(found)(memory, size);
}
inline void program_free(void* memory) {
  void* found = dlsym(RTLD_DEFAULT, "free");
  if (found != nullptr) reinterpret_cast<void (*)(void*)>(found)(memory);
}

}  // namespace millrace::store

// Other names of hooks, for the end of their file: asm("names_64 stat, lstat"). In assembly,
// because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .macro names_64 name, more:vararg
  .globl \name\()64
  .set \name\()64, \name
  .ifnb \more
  names_64 \more
  .endif
  .endm
  .macro also other, name
  .globl \other
  .set \other, \name
  .endm
)");
