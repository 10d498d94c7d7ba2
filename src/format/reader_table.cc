#include "format/reader_table.h"

#include <sys/resource.h>

#include <algorithm>
#include <cassert>

namespace millrace::format {
namespace {

constexpr size_t kCapacityMax = 4096;

}  // namespace

size_t ReaderTable::capacity_for(size_t wanted) {
  size_t allowed = kCapacityMax;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    // The other half is left to the program: its libraries, workers and sockets.
    allowed = std::min<size_t>(allowed, static_cast<size_t>(limit.rlim_cur) / 2);
  }
  if (wanted != 0) allowed = std::min(allowed, wanted);
  return std::max<size_t>(allowed, 1);
}

ReaderTable::ReaderTable(uint64_t file_count, size_t capacity, Open open)
    : open_(std::move(open)),
      capacity_(capacity),
      kept_(file_count <= capacity ? static_cast<size_t>(file_count) : 0) {
  assert(capacity > 0);
}

Result<std::shared_ptr<const io::Reader>> ReaderTable::get(data::FileIndex file) const {
  return keeps_all() ? get_kept(index_of(file)) : get_recent(index_of(file));
}

Result<std::shared_ptr<const io::Reader>> ReaderTable::get_kept(uint32_t file) const {
  // Without reference counting: the table never drops it.
  const auto borrowed = [](const io::Reader* reader) {
    return std::shared_ptr<const io::Reader>(std::shared_ptr<void>(), reader);
  };
  if (const io::Reader* reader = kept_[file].load(std::memory_order_acquire)) {
    return borrowed(reader);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<io::Reader> opened, open_(data::FileIndex{file}));
  const MutexLock lock(mutex_);
  if (const io::Reader* reader = kept_[file].load(std::memory_order_relaxed)) {
    return borrowed(reader);  // another thread was first; ours gets closed
  }
  const io::Reader* reader = opened.get();
  owned_.push_back(std::move(opened));
  kept_[file].store(reader, std::memory_order_release);
  return borrowed(reader);
}

Result<std::shared_ptr<const io::Reader>> ReaderTable::get_recent(uint32_t file) const {
  {
    const MutexLock lock(mutex_);
    const auto found = recent_by_file_.find(file);
    if (found != recent_by_file_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->reader;
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<io::Reader> opened, open_(data::FileIndex{file}));
  const std::shared_ptr<const io::Reader> reader = std::move(opened);
  // Declared before the lock, so that it is closed after the lock is released: that may take time.
  std::shared_ptr<const io::Reader> closed;
  const MutexLock lock(mutex_);
  if (recent_by_file_.contains(file)) return reader;  // another thread was first
  recent_.push_front({.file = file, .reader = reader});
  recent_by_file_[file] = recent_.begin();
  if (recent_.size() > capacity_) {
    closed = std::move(recent_.back().reader);
    recent_by_file_.erase(recent_.back().file);
    recent_.pop_back();
  }
  return reader;
}

}  // namespace millrace::format
