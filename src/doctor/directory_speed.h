// DirectorySpeed: how fast a directory writes, reads from memory, reads from its device, and
// handles small files. docs/design/honest-speed.md explains why each figure can be trusted.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace millrace::doctor {

struct RandomReads {
  double latency_us_p50 = 0;  // one read at a time
  double latency_us_p99 = 0;
  double per_second = 0;  // `threads` at a time
  size_t threads = 0;
};

struct DirectorySpeed {
  uint64_t probe_size_bytes = 0;      // the file that was written and read
  double write_bytes_per_second = 0;  // to the device, not only into memory
  double cached_read_bytes_per_second = 0;
  // Unset if the device cannot be told apart from the page cache.
  std::optional<double> device_read_bytes_per_second;
  std::optional<RandomReads> device_random_reads;  // 4 KiB each
  std::string device_method;  // how the page cache was avoided, or why it could not be

  // Files of 16 KiB each, warm.
  double small_creates_per_second = 0;
  double small_stats_per_second = 0;
  double small_reads_per_second = 0;  // open, read, close
};

struct SpeedOptions {
  uint64_t probe_size_bytes = uint64_t{256} << 20;
  bool memory_only = false;  // tmpfs or ramfs: there is no device
  const std::atomic<bool>* cancelled = nullptr;
  std::function<void(const char*)> activity = [](const char*) {};  // called at each phase
};

// Writes into a temporary directory below `directory`, and removes it. Takes a second on a fast
// disk, about fifteen at most: a phase that takes too long ends early and counts what it did.
Result<DirectorySpeed> measure_directory_speed(const std::filesystem::path& directory,
                                               const SpeedOptions& options);

}  // namespace millrace::doctor
