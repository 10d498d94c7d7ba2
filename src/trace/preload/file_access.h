// FileAccess: the few operations of the recorder on its own files.
//
// Each function opens, works and closes. No descriptor stays open, because programs close
// descriptors that are not theirs, and ours could then refer to one of their files. If the program
// has no free descriptor, a task with its own descriptor table does the work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/preload/turn.h"

namespace millrace::trace {

// Allocates the file's space for [offset, offset + size) and maps it shared. Null if that fails or
// the file belongs to another user; *error is then the errno value. With `exclusive`, the file must
// not exist yet.
struct MapRequest {
  const char* path;
  uint64_t offset;
  size_t size;
  bool create = false;
  bool exclusive = false;
};
void* map_file(const MapRequest& request, int* error);

// Whether an open file or directory belongs to this user. We do not write to anyone else's
// recording. `path` is that of the file, or of a file in the directory.
bool is_own_file(int fd, const char* path);

// Appends `size` bytes in one piece; creates the file if needed. Returns 0 or an errno value; on
// failure the file is unchanged. `turn` belongs to the file: two concurrent writers could not take
// back a partial write. `thread` is ours.
int append_file(const char* path, const void* data, size_t size, Turn& turn, uint32_t thread);

// Writes a file that must not exist yet. Returns 0 or an errno value.
int write_new_file(const char* path, const void* data, size_t size);

// Reads up to `size` bytes from the start of a file. Returns the count, or minus an errno value.
long read_start(const char* path, void* buffer, size_t size);

}  // namespace millrace::trace
