// Issue: makes one recorded call against the files of the replay.
//
// The Folder opens files and changes names. Here are the calls on what it has opened: a descriptor
// is writable only if this replay created the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "replay/buffer.h"
#include "replay/folder.h"
#include "replay/outcome.h"
#include "replay/plan.h"

namespace millrace::replay {

// An open file of the replay: a descriptor, or the address of a stream or directory.
struct OpenHandle {
  HandleKind kind = HandleKind::kDescriptor;
  int64_t value = 0;

  int descriptor() const;
};

// What the call works on. Names are relative to the folder.
struct Place {
  std::string_view name;        // of calls on names
  std::string_view other_name;  // of rename and link
  OpenHandle file = {};
  OpenHandle other_file = {};  // where a transfer writes
  bool is_shared = false;      // the position of the file belongs to nobody
  bool appends = false;        // O_APPEND: every write is at the end
  bool is_directory = false;   // for unlinkat and remove
  const Transfer* transfer = nullptr;
  const std::atomic<bool>* stop = nullptr;  // ends a read of gigabytes early
};

// Makes the call of a step that uses an open file or a name. REQUIRES: the buffer holds the step's
// size.
Outcome issue(const Step& step, const Place& place, const Buffer& buffer, Folder& folder);

// Makes the call that opens a file.
Outcome issue_open(const Handle& handle, std::string_view name, Folder& folder, OpenHandle& opened);

Outcome issue_close(wire::Call call, const OpenHandle& handle);

// Closes without measuring.
void close_handle(const OpenHandle& handle);

}  // namespace millrace::replay
