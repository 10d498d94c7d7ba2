// MemoryEngine: files in memory, with faults on demand. Tests of all layers above use it.
//
//   MemoryEngine engine;
//   engine.set_faults({.path_contains = "00007", .read_error_at = 4096});
//
// Files live as long as the engine or a reader of them. Thread-safe. A path is just a name:
// directories need not be created, but a name that is a prefix of others counts as a directory. The
// queue returns reads in reverse order of submission, so that no caller relies on the order.
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

// The faults to inject. A read or write consists of transfers, as if made by system calls.
struct FaultPlan {
  std::string path_contains;                 // affects files with this in their path; empty: all
  int open_errno = 0;                        // not 0: open and create fail with it
  size_t transfer_bytes_max = 0;             // not 0: no transfer moves more (short reads)
  uint32_t interrupt_every = 0;              // not 0: every n-th transfer fails with EINTR
  std::optional<uint64_t> read_error_at{};   // a transfer that reaches this byte stops before
                                             // it; one that begins there fails with EIO
  std::optional<uint64_t> write_error_at{};  // likewise
  std::chrono::nanoseconds delay{};          // of each transfer
  bool stalls = false;                       // transfers wait until release()
  uint64_t disk_bytes = std::numeric_limits<uint64_t>::max();  // for all files; then ENOSPC
};

struct MemoryFile;   // in memory_engine.cc
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

  // Takes effect at once, also for transfers that are waiting.
  void set_faults(FaultPlan faults);
  // Continues stalled transfers. Later ones do not stall.
  void release();
  // Number of transfers that wait for release().
  size_t stalled_count() const;
  // Number of transfers so far, including interrupted ones.
  uint64_t transfer_count() const;
  uint64_t interrupted_count() const;

 private:
  std::shared_ptr<MemoryState> state_;  // shared with readers and writers, which may outlive it
};

}  // namespace millrace::io
