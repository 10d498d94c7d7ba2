// FileTable: the totals of all files of a job, indexed by the number of their name.
//
// Several threads may add at once. Memory is allocated in chunks of 1024 files on first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "analyze/files/file_gather.h"
#include "analyze/files/file_totals.h"
#include "base/bytes.h"
#include "base/result.h"

namespace millrace::analyze {

// Aligned to cache lines, so that an access touches as few as possible.
struct alignas(64) FileEntry {
  FileTotals totals;
  Coverage coverage;
  std::unique_ptr<SizeCounts> read_sizes;  // null: nothing was read, or it is a system file
};

// Held for a few nanoseconds, millions of times: a mutex would cost more than the work it protects.
class SpinLock {
 public:
  void lock() {
    while (held_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag held_;
};

class FileTable {
 public:
  explicit FileTable(size_t name_count);
  ~FileTable();
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  // Adds the I/O of one block of a group. `bit` is the bit of the group.
  void add(std::span<const FileUse> uses, uint32_t group, uint64_t bit);

  void save(std::vector<std::byte>& out) const;
  Status merge(ByteReader& saved);

  // Calls `see` for every file that was used, sorted by number.
  void visit(const std::function<void(trace::NameIndex, const FileEntry&)>& see) const;

 private:
  static constexpr size_t kChunkFiles = 1024;
  static constexpr size_t kLocks = 256;

  // Null: no file of its chunk has been used yet.
  FileEntry* find(size_t name) const;
  FileEntry& entry(size_t name);

  size_t name_count_;
  std::vector<std::atomic<FileEntry*>> chunks_;
  std::unique_ptr<SpinLock[]> locks_;  // file i uses lock i modulo kLocks
};

}  // namespace millrace::analyze
