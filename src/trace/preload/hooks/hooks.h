// Hooks: templates for the kinds of hooked calls. With them, a hook is one statement:
//
//   extern "C" int fsync(int fd) {
//     static constinit Real<decltype(fsync)> real{"fsync"};
//     return on_descriptor(Call::kFsync, fd, [&] { return real(fd); });
//   }
//
// exports.map lists every hooked symbol, and wire/trace_call.h every call.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "hook/real.h"
#include "trace/preload/recorder.h"

namespace millrace::trace {

using hook::Real;

// Looks up, once and in the parent, the calls that forked children usually make. Otherwise each
// child would look them up again, and copy the loader's pages.
void find_data_calls();
void find_open_calls();
void find_exit_call();

// syscall(SYS_seccomp): the C library has no function for it.
long seccomp_call(long operation, long flags, long argument);

// Whether a pointer of the program is null. Headers declare many pointers as nonnull, and the
// compiler would omit the comparison.
template <typename Type>
bool is_null(Type* pointer) {
  asm("" : "+r"(pointer));
  return pointer == nullptr;
}

// A call on a descriptor, without an offset.
template <typename Body>
auto on_descriptor(Call call, int fd, Body body, uint32_t detail = 0) {
  if (!recording(Level::kPosix)) return body();
  const hook::Description* description = describe(fd);
  if (ignored(description)) return body();
  return traced({.call = call, .file = file_of(description), .detail = detail}, body);
}

// A call with an explicit range of a file: pread, fallocate.
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

// The requested bytes of a call that takes a list of buffers. The list belongs to the program. So
// it is read only after the kernel has read it, and not if the call failed.
inline uint64_t size_after(ssize_t result, const iovec* buffers, size_t count) {
  uint64_t size = 0;
  for (size_t i = 0; result >= 0 && i < count; ++i) size += buffers[i].iov_len;
  return size;
}

// A call at the file's position, which moves it by the number of bytes that it returns.
// `size_of(result)` gives the requested size after the call.
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

// rename, link: recorded if either file passes the filters.
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
  // A call may fail because of one path, before the kernel has read the other.
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

// A call after which nothing can be recorded (exec, a sandbox). It is recorded as a success before
// it is made; take_back() turns it into a failure.
class Announced {
 public:
  explicit Announced(const Event& event)
      : event_(event),
        begin_(now()),
        slot_(record_wide(event, {begin_, begin_, 0})),
        ring_(writer.ring),
        sequence_(ring_ == nullptr ? 0 : ring_->header.sequence) {}

  // REQUIRES: event.detail is not 0, so that the record has a second slot.
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
