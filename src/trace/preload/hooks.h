// Hooks: the shapes that hooked calls come in. A hook is then one statement:
//
//   extern "C" int fsync(int fd) {
//     static constinit Real<decltype(fsync)> real{"fsync"};
//     return on_descriptor(Call::kFsync, fd, [&] { return real(fd); });
//   }
//
// Every hooked symbol is listed in exports.map, and every call in wire/trace_call.h.
#pragma once

#include <sys/types.h>

#include "hook/real.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

using hook::Real;

// Looks up the calls that forked children usually make, once, in their parent: each would otherwise
// do it for itself, and pay for the loader's pages.
void find_data_calls();
void find_open_calls();
void find_exit_call();

// A call on a descriptor, at no particular place in the file.
template <typename Body>
auto on_descriptor(Call call, int fd, Body body, uint32_t detail = 0) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  return traced({.call = call, .file = file_of(description), .detail = detail}, body);
}

// A call on a range of a file that it names itself: pread, fallocate.
struct Range {
  uint64_t offset;
  uint64_t size;
  uint32_t detail = 0;
};
template <typename Body>
auto on_range(Call call, int fd, Range range, Body body) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  return traced({.call = call,
                 .file = file_of(description),
                 .offset = range.offset,
                 .size = range.size,
                 .detail = range.detail},
                body);
}

// A call that goes on at the file's position, and moves it by what it returns.
template <typename Body>
ssize_t at_position(Call call, int fd, size_t size, Body body) {
  if (!recording(Level::kPosix)) return body();
  hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  const uint64_t begin = now();
  const ssize_t result = body();
  const uint64_t end = now();
  const int error = result < 0 ? errno : 0;
  const uint64_t moved = result > 0 ? static_cast<uint64_t>(result) : 0;
  uint64_t offset = kNoOffset;
  if (description != nullptr) offset = recorder.descriptors.moved_from(*description, fd, moved);
  record({.call = call, .file = file_of(description), .offset = offset, .size = size},
         {begin, end, result, error});
  return result;
}

template <typename Body>
auto on_path_at(Call call, int directory, const char* path, Body body, uint64_t size = 0) {
  if (!recording(Level::kPosix)) return body();
  const NameId name = intern_path_at(directory, path);
  if (ignored(name)) return body();
  return traced({.call = call, .file = name, .size = size}, body);
}

template <typename Body>
auto on_path(Call call, const char* path, Body body, uint64_t size = 0) {
  return on_path_at(call, AT_FDCWD, path, body, size);
}

// rename, link: recorded where either file is wanted.
struct PathAt {
  int directory;
  const char* path;
};
template <typename Body>
auto on_two_paths(Call call, PathAt from, PathAt to, Body body) {
  if (!recording(Level::kPosix)) return body();
  const NameId source = intern_path_at(from.directory, from.path);
  const NameId target = intern_path_at(to.directory, to.path);
  if (ignored(source) && ignored(target)) return body();
  return traced({.call = call, .file = source, .other_file = target}, body);
}

}  // namespace millrace::trace
