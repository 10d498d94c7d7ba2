// BufferDrain: copies the files of a buffer to the upper directory, and repeats renames and
// removals there, in the order of the journal. docs/design/store-buffer.md.
//
// One process drains a buffer (it locks drain.lock), with one thread. What fails stops the queue,
// and is tried again. A file is removed from the buffer only when it is durable in the upper
// directory, or when a program has removed or replaced it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/buffer/contents.h"

namespace millrace::store {

struct DrainOptions {
  std::filesystem::path directory;              // BUFFER
  std::function<void(const std::string&)> log;  // one line, when something begins to fail
  std::chrono::milliseconds scan_every{1000};   // for files whose writer has died
  std::chrono::milliseconds retry_after_max{10'000};
};

class BufferDrain {
 public:
  // Takes over the buffer, also one that another process has left. Fails if another one drains it.
  static Result<std::unique_ptr<BufferDrain>> start(DrainOptions options);
  ~BufferDrain();  // stops; what is not copied stays in the buffer

  BufferDrain(const BufferDrain&) = delete;
  BufferDrain& operator=(const BufferDrain&) = delete;

  // At the end of the job: files that were never closed count as closed, what fails is tried three
  // times. Stops, and returns what is kept. If there is nothing, the buffer is removed.
  std::vector<KeptFile> finish();

 private:
  struct Impl;
  explicit BufferDrain(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Flushes and waits. If nobody drains the buffer, this process does, to the end: then the buffer is
// removed if nothing is kept. Returns what is kept; nothing if there is no buffer.
// Gives up when something has failed for as long as `patience`.
Result<std::vector<KeptFile>> flush_buffer(
    const std::filesystem::path& directory,
    std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace millrace::store
