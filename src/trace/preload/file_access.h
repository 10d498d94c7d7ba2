// FileAccess: the few things the recorder does with its own files.
//
// Each opens, works and closes: no descriptor is held, because programs close descriptors that are
// not theirs, and would then have ours point at one of their files. Where the program has none
// left, the work is done by a task with a descriptor table of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/preload/turn.h"

namespace millrace::trace {

// Makes sure that the file has space for [offset, offset + size) and maps it shared. Null where
// that fails, or the file is another user's; *error is then the errno value. `exclusive`: the file
// must not exist yet.
struct MapRequest {
  const char* path;
  uint64_t offset;
  size_t size;
  bool create = false;
  bool exclusive = false;
};
void* map_file(const MapRequest& request, int* error);

// Whether an open file or directory is this user's. A recording of somebody else is not written to.
// `path` is the file's, or one in the directory.
bool is_own_file(int fd, const char* path);

// Appends `size` bytes as one piece, making the file where it is not there. 0, or an errno value;
// then the file is as it was before. `turn` is the file's, because two that append at once cannot
// take back a part that was written; `thread` is ours.
int append_file(const char* path, const void* data, size_t size, Turn& turn, uint32_t thread);

// Writes a new file that must not exist yet. 0, or an errno value.
int write_new_file(const char* path, const void* data, size_t size);

// Reads up to `size` bytes from the start of a file. The count, or minus an errno value.
long read_start(const char* path, void* buffer, size_t size);

}  // namespace millrace::trace
