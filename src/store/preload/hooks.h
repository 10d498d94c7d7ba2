// Hooks: templates for the kinds of hooked calls. A hook says what happens to a path below the root
// and what the real call is:
//
//   extern "C" int chdir(const char* path) {
//     static constinit Real<int(const char*)> real{"chdir"};
//     return on_path(AT_FDCWD, path, Last::kFollow, [&](uint32_t entry) { ... },
//                    [&](int, const char* other) { return real(other); });
//   }
//
// exports.map lists every hooked symbol.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "hook/real.h"
#include "store/preload/lookup.h"

namespace millrace::store {

using hook::Real;
using wire::EntryKind;

inline constexpr uint32_t kNoEntry = wire::kNoEntry;

inline wire::CatalogueEntry entry_at(uint32_t entry) { return client.catalogue.entry(entry); }
inline bool is_directory(uint32_t entry) { return entry_at(entry).kind == EntryKind::kDirectory; }

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
  if (place.where == Where::kInside) return static_cast<Result>(inside(place.entry));
  if (place.where == Where::kElsewhere) return outside(AT_FDCWD, place.path);
  return failure<Result>(place.error);
}

// A call that changes what exists: refused for what is in the catalogue.
template <typename Outside>
auto changing_path(int directory, const char* path, Last last, Outside outside) {
  using Result = decltype(outside(directory, path));
  return on_path(directory, path, last, [](uint32_t) { return failure<Result>(EROFS); }, outside);
}

// Whether the place may become a new name, or is one that a program has created. The service hears
// of it.
inline bool can_create(const Place& place) {
  if (!place.is_written) return false;
  announce_names(place.entry);
  return true;
}

// A call that creates a name.
template <typename Outside>
auto creating_path(int directory, const char* path, Outside outside) {
  using Result = decltype(outside(directory, path));
  Lookup lookup;
  const Place place = lookup.find(directory, path, Last::kKeepLink);
  switch (place.where) {
    case Where::kInside:
      return failure<Result>(EEXIST);
    case Where::kElsewhere:
      can_create(place);
      return outside(AT_FDCWD, place.path);
    case Where::kFailed:
      if (can_create(place)) return outside(AT_FDCWD, place.path);
      return failure<Result>(place.error);
    default:
      return outside(directory, path);
  }
}

// A call that changes a descriptor's file.
template <typename Body>
auto changing_descriptor(int fd, Body body) {
  if (entry_of(fd) != kNoEntry) return failure<decltype(body())>(EROFS);
  return body();
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
