// ReaderTable: the open files of a source, at most `capacity` of them.
//
// A dataset may have more files than a process may open. If all fit, they stay open, and lookups
// take no lock. Otherwise the least recently used one is closed. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "data/sample.h"
#include "io/engine.h"

namespace millrace::format {

class ReaderTable {
 public:
  using Open = std::function<Result<std::unique_ptr<io::Reader>>(data::FileIndex file)>;

  // REQUIRES: capacity > 0. `open` is called without a lock, possibly by several threads at once.
  ReaderTable(uint64_t file_count, size_t capacity, Open open);

  // Shared by the table and those who read from it: a reader that the table drops is closed when
  // its last read ends.
  Result<std::shared_ptr<const io::Reader>> get(data::FileIndex file) const;

  // If true, readers from get() and their views live as long as the table.
  bool keeps_all() const { return !kept_.empty(); }

  // Half of what the process may open, but at most 4096, and at most `wanted` unless that is 0.
  static size_t capacity_for(size_t wanted);

 private:
  struct Entry {
    uint32_t file;
    std::shared_ptr<const io::Reader> reader;
  };

  Result<std::shared_ptr<const io::Reader>> get_kept(uint32_t file) const;
  Result<std::shared_ptr<const io::Reader>> get_recent(uint32_t file) const;

  Open open_;
  size_t capacity_;
  mutable std::vector<std::atomic<const io::Reader*>> kept_;  // by file, if all fit
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<io::Reader>> owned_ GUARDED_BY(mutex_);
  mutable std::list<Entry> recent_ GUARDED_BY(mutex_);
  mutable std::unordered_map<uint32_t, std::list<Entry>::iterator> recent_by_file_
      GUARDED_BY(mutex_);
};

}  // namespace millrace::format
