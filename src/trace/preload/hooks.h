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
#include <sys/uio.h>

#include "hook/real.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

using hook::Real;

// Looks up the calls that forked children usually make, once, in their parent: each would otherwise
// do it for itself, and pay for the loader's pages.
void find_data_calls();
void find_open_calls();
void find_exit_call();

// syscall(SYS_seccomp): the C library has no function of its own for it.
long seccomp_call(long operation, long flags, long argument);

// Whether a pointer of the program is null. Headers say of many that they are not, and the compiler
// would leave the comparison out.
template <typename Type>
bool is_null(Type* pointer) {
  asm("" : "+r"(pointer));
  return pointer == nullptr;
}

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

// The bytes asked for, of a call that takes a list of buffers. The list is the program's: it is
// read after the kernel has read it, and not at all when the call failed.
inline uint64_t size_after(ssize_t result, const iovec* parts, size_t count) {
  uint64_t size = 0;
  for (size_t i = 0; result >= 0 && i < count; ++i) size += parts[i].iov_len;
  return size;
}

// A call that goes on at the file's position, and moves it by what it returns. `size_of` is asked
// for the size after the call, with its result.
template <typename SizeOf, typename Body>
ssize_t at_position_sized(Call call, int fd, SizeOf size_of, Body body) {
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
  record({.call = call, .file = file_of(description), .offset = offset, .size = size_of(result)},
         {begin, end, result, error});
  return result;
}

template <typename Body>
ssize_t at_position(Call call, int fd, size_t size, Body body) {
  return at_position_sized(call, fd, [=](ssize_t) { return size; }, body);
}

template <typename Body>
auto on_path_at(Call call, int directory, const char* path, Body body, uint64_t size = 0) {
  if (!recording(Level::kPosix)) return body();
  const uint64_t begin = now();
  const auto value = body();
  const uint64_t end = now();
  const int64_t result = result_number(value);
  const int error = result < 0 ? errno : 0;
  const NameId name = intern_path_after(error, directory, path);
  if (!ignored(name)) {
    record({.call = call, .file = name, .size = size}, {begin, end, result, error});
  }
  return value;
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
  const uint64_t begin = now();
  const int result = body();
  const uint64_t end = now();
  const int error = result < 0 ? errno : 0;
  // A failure may be of the one path, before the kernel read the other.
  const auto name = [error](const PathAt& at) {
    return error == 0 ? intern_path_at(at.directory, at.path)
                      : intern_unread_path_at(at.directory, at.path);
  };
  const NameId source = name(from);
  const NameId target = name(to);
  if (!ignored(source) || !ignored(target)) {
    record({.call = call, .file = source, .other_file = target}, {begin, end, result, error});
  }
  return result;
}

// A call after which nothing may be recorded any more (exec, a sandbox) is recorded before it is
// made, as a success. take_back() makes it a failure.
class Announced {
 public:
  explicit Announced(const Event& event)
      : event_(event),
        begin_(now()),
        slot_(record_wide(event, {begin_, begin_, 0})),
        ring_(writer.ring),
        sequence_(ring_ == nullptr ? 0 : ring_->header.sequence) {}

  // REQUIRES: event.detail is not 0, so that its record has a second slot.
  void take_back(int64_t result, int error) {
    if (slot_ != nullptr && writer.ring == ring_ && ring_->header.sequence == sequence_) {
      slot_[1].wide.result = result;
      slot_[1].wide.error = static_cast<uint16_t>(error);
    } else {
      record(event_, {begin_, now(), result, error});
    }
  }

 private:
  Event event_;
  uint64_t begin_;
  wire::TraceSlot* slot_;
  const wire::Ring* ring_;
  uint64_t sequence_;
};

}  // namespace millrace::trace
