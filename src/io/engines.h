// All engines, each implemented in a file of its own. For open_engine and tests; others open
// engines by name.
#pragma once

#include <filesystem>
#include <memory>

#include "base/io/file.h"
#include "io/engine.h"

namespace millrace::io {

// Reads of posix, and the queue of uring if available; the caller measures which is better. Does
// not fail on a kernel or build without io_uring: ways() says why there is no queue.
Result<std::unique_ptr<Engine>> open_auto();

// pread and pwrite through the page cache: the engine to use if nothing else is known.
Result<std::unique_ptr<Engine>> open_posix();

// O_DIRECT: bypasses the page cache. For data that is read once or must not evict other data.
Result<std::unique_ptr<Engine>> open_direct();

// Memory-mapped files: view() returns the bytes without a copy.
Result<std::unique_ptr<Engine>> open_mapped();

// Many reads in flight from one thread, through the page cache.
Result<std::unique_ptr<Engine>> open_uring();

// Opens a file that the queue reads whole.
using OpenWhole = Result<File> (*)(const std::filesystem::path& path);

struct UringOptions {
  size_t capacity = 1;
  OpenWhole open_whole = nullptr;
  bool is_direct = false;  // whether open_whole opens with O_DIRECT
};

// An io_uring queue for readers of `auto`, `uring` and `direct`. Fails if the build or the kernel
// has no io_uring.
Result<std::unique_ptr<ReadQueue>> open_uring_queue(const UringOptions& options);
// The same, for files read through the page cache.
Result<std::unique_ptr<ReadQueue>> open_uring_queue(size_t capacity);

}  // namespace millrace::io
