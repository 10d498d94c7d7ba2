// The engines there are, each made by its own file. For open_engine and for tests; others ask by
// name.
#pragma once

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "io/engine.h"

namespace millrace::io {

// posix's reads, and the queue of uring where there is one: which is better, who reads measures.
// Never fails for a kernel or a build without io_uring: ways() says why there is no queue.
Result<std::unique_ptr<Engine>> open_auto();

// pread and pwrite through the page cache: the one to take where nothing else is known.
Result<std::unique_ptr<Engine>> open_posix();

// O_DIRECT: past the page cache. For data that is read once, or must not push out other data.
Result<std::unique_ptr<Engine>> open_direct();

// Files as memory: view() gives the bytes without a copy.
Result<std::unique_ptr<Engine>> open_mapped();

// Many reads in flight from one thread, through the page cache.
Result<std::unique_ptr<Engine>> open_uring();

// How a queue opens a file that is read whole.
using OpenWhole = Result<File> (*)(const std::filesystem::path& path);

struct UringOptions {
  size_t capacity = 1;
  OpenWhole open_whole = nullptr;
  bool is_direct = false;  // what open_whole opens
};

// A queue of io_uring for the readers of `auto`, `uring` and `direct`; fails where the build or the
// kernel has none.
Result<std::unique_ptr<ReadQueue>> open_uring_queue(const UringOptions& options);
// The same, of files in the page cache.
Result<std::unique_ptr<ReadQueue>> open_uring_queue(size_t capacity);

}  // namespace millrace::io
