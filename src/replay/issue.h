// Issue: makes one recorded call against the files of the replay.
#pragma once

#include <cstdint>

#include "replay/buffer.h"
#include "replay/plan.h"

namespace millrace::replay {

// An open file of the replay: a descriptor, or the address of a stream or directory.
struct OpenHandle {
  HandleKind kind = HandleKind::kDescriptor;
  int64_t value = 0;

  int descriptor() const;
};

// What the call works on.
struct Place {
  const char* name = nullptr;        // of calls on names, and of opens
  const char* other_name = nullptr;  // of rename and link
  OpenHandle file = {};
  OpenHandle other_file = {};  // where a transfer writes
  bool is_shared = false;      // the position of the file belongs to nobody
  bool appends = false;        // O_APPEND: every write is at the end
  bool is_directory = false;   // for unlinkat
  const Transfer* transfer = nullptr;
};

struct Outcome {
  int64_t result = -1;  // bytes, if the call moves bytes; negative: failed
  int error = 0;        // errno
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// Makes the call of a step that uses an open file or a name. REQUIRES: the buffer holds the step's
// size.
Outcome issue(const Step& step, const Place& place, const Buffer& buffer);

// Makes the call that opens a file, as `call` if it is one that does, and otherwise as open.
Outcome issue_open(wire::Call call, const Handle& handle, const char* name, OpenHandle& opened);

Outcome issue_close(wire::Call call, const OpenHandle& handle);

// Closes without measuring.
void close_handle(const OpenHandle& handle);

}  // namespace millrace::replay
