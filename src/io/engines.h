// The engines there are, each made by its own file. For open_engine and for tests; others ask by
// name.
#pragma once

#include <memory>

#include "io/engine.h"

namespace millrace::io {

// pread and pwrite through the page cache: the one to take where nothing else is known.
Result<std::unique_ptr<Engine>> open_posix();

// O_DIRECT: past the page cache. For data that is read once, or must not push out other data.
Result<std::unique_ptr<Engine>> open_direct();

// Files as memory: view() gives the bytes without a copy.
Result<std::unique_ptr<Engine>> open_mapped();

// Many reads in flight from one thread, through the page cache.
Result<std::unique_ptr<Engine>> open_uring();

// A queue of io_uring for the readers of `uring` and `direct`; fails where the build or the kernel
// has none.
Result<std::unique_ptr<ReadQueue>> open_uring_queue(size_t capacity);

}  // namespace millrace::io
