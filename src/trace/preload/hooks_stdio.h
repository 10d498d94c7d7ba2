// Stdio hooks: the shapes that calls on streams come in.
//
// An event's offset is where in the file its bytes lie (ftell before the call), and its result is
// bytes, also where the call counts items. What the C library does below, filling and emptying
// buffers, are its own system calls and not seen one by one.
#pragma once

#include <stdio.h>

#include "trace/preload/hooks.h"

namespace millrace::trace {

// The file behind a stream.
hook::Description* describe_stream(FILE* stream);

// Where the stream is in its file; kNoOffset where that has no meaning.
uint64_t stream_position(FILE* stream, const hook::Description* description);

// A call on a stream whose result in bytes is `bytes_of(value)`, or -1 where it failed.
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

// A call whose own result says it all.
template <typename Body>
auto on_stream(Call call, FILE* stream, uint64_t size, Body body) {
  return on_stream(call, stream, size, body, [](auto value) { return result_number(value); });
}

// A call that consumes what it finds (fscanf): the bytes are how far the stream moved.
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
