// MemoryEngine: files in memory, with faults on demand: what everything above is tested with.
//
//   MemoryEngine engine;
//   engine.set_faults({.path_contains = "00007", .read_error_at = 4096});
//
// Files live as long as the engine or a reader of them. Any number of threads. A path is a name and
// no more: there are no directories to make, but a name that others lie below is one. Reads of its
// queue come back in the reverse of the order they were submitted in, so that nobody relies on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "io/engine.h"

namespace millrace::io {

// What goes wrong. A read or a write is made of transfers, as system calls would make them.
struct FaultPlan {
  std::string path_contains;                 // the files it is about; empty: all
  int open_errno = 0;                        // open and create fail with it
  size_t transfer_bytes_max = 0;             // above 0: no transfer moves more (short reads)
  uint32_t interrupt_every = 0;              // above 0: every n-th transfer is an EINTR instead
  std::optional<uint64_t> read_error_at{};   // a transfer that reaches this byte gives what is
                                             // before it; one that begins there is an EIO
  std::optional<uint64_t> write_error_at{};  // likewise
  std::chrono::nanoseconds delay{};          // of each transfer
  bool stalls = false;                       // transfers wait until release()
  uint64_t disk_bytes = std::numeric_limits<uint64_t>::max();  // of all files: then ENOSPC
};

struct MemoryFile;   // in memory.cc
struct MemoryState;  // likewise

class MemoryEngine final : public Engine {
 public:
  MemoryEngine();

  std::string_view name() const override { return "memory"; }
  EngineWays ways() const override { return {.one_at_a_time = name(), .in_flight = name()}; }
  Result<std::unique_ptr<Reader>> open(const std::filesystem::path& path) override;
  Result<std::unique_ptr<Writer>> create(const std::filesystem::path& path) override;
  Result<std::unique_ptr<ReadQueue>> open_queue(size_t capacity) override;
  Result<size_t> read_whole(const std::filesystem::path& path, MutableByteView out) override;

  // From now on; for transfers under way too, if they wait.
  void set_faults(FaultPlan faults);
  // Lets go of what stalls, and stalls nothing more.
  void release();
  // Transfers that wait for release() now.
  size_t stalled_count() const;
  // Transfers so far, interrupted ones among them.
  uint64_t transfer_count() const;
  uint64_t interrupted_count() const;

 private:
  std::shared_ptr<MemoryState> state_;  // shared with readers and writers, which may live longer
};

Result<std::unique_ptr<Engine>> open_memory();

}  // namespace millrace::io
