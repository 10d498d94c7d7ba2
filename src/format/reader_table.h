// ReaderTable: the open files of a source, never more than a bound.
//
// A dataset may have more files than a process may open. Where all fit they stay open, and finding
// one takes no lock; else the one unused for longest is closed for the next. Any thread may ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "data/sample.h"
#include "io/engine.h"

namespace millrace::format {

class ReaderTable {
 public:
  using Open = std::function<Result<std::unique_ptr<io::Reader>>(data::FileIndex file)>;

  // REQUIRES: capacity > 0. `open` is called without a lock, by several threads at once.
  ReaderTable(uint64_t file_count, size_t capacity, Open open);

  // Shared with the table and with whoever reads it at the time: one that was closed for another
  // goes when its last read ends.
  Result<std::shared_ptr<const io::Reader>> get(data::FileIndex file) const;

  // Then what get() returns lives as long as the table, and so do views of it.
  bool keeps_all() const { return !kept_.empty(); }

  // Half of what the process may still open, at most `wanted` where that is not 0.
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
  mutable std::vector<std::atomic<const io::Reader*>> kept_;  // by file, where all fit
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<io::Reader>> owned_;                           // guarded
  mutable std::list<Entry> recent_;                                                  // guarded
  mutable std::unordered_map<uint32_t, std::list<Entry>::iterator> recent_by_file_;  // guarded
};

}  // namespace millrace::format
