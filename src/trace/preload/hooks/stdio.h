// Stdio hooks: templates for the kinds of calls on streams.
//
// An event's offset is the position of its bytes in the file (ftell before the call). Its result is
// in bytes, even if the call counts items. The system calls with which the C library fills and
// flushes its buffers are not seen.
#pragma once

#include <stdio.h>

#include "trace/preload/hooks/hooks.h"

namespace millrace::trace {

// The file behind a stream.
hook::Description* describe_stream(FILE* stream);

// The position of the stream in its file; kNoOffset if it has none.
uint64_t stream_position(FILE* stream, const hook::Description* description);

// A call on a stream. `bytes_of(value)` gives its result in bytes, or -1 if it failed.
template <typename Body, typename BytesOf>
auto on_stream(Call call, FILE* stream, uint64_t size, Body body, BytesOf bytes_of) {
  if (!recording(Level::kStdio) || stream == nullptr) return body();
  const hook::Description* description = describe_stream(stream);
  if (ignored(description)) return body();
  const uint64_t offset = stream_position(stream, description);
  const uint64_t begin = now();
  const auto value = body();
  const uint64_t end = now();
  const int saved_errno = errno;
  const int64_t bytes = bytes_of(value);
  record({.call = call, .file = file_of(description), .offset = offset, .size = size},
         {begin, end, bytes, bytes < 0 ? saved_errno : 0});
  errno = saved_errno;
  return value;
}

// A call whose return value is the result.
template <typename Body>
auto on_stream(Call call, FILE* stream, uint64_t size, Body body) {
  return on_stream(call, stream, size, body, [](auto value) { return result_number(value); });
}

// A call that consumes an unknown amount (fscanf): the result is how far the stream moved.
template <typename Body>
int on_stream_moved(Call call, FILE* stream, Body body) {
  if (!recording(Level::kStdio)) return body();
  const hook::Description* description = describe_stream(stream);
  const uint64_t offset = stream_position(stream, description);
  return on_stream(call, stream, 0, body, [&](int value) -> int64_t {
    const uint64_t after = stream_position(stream, description);
    if (offset == kNoOffset || after == kNoOffset) return value;
    return static_cast<int64_t>(after - offset);
  });
}

}  // namespace millrace::trace
