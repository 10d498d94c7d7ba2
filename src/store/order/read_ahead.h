// ReadAhead: reads whole partitions of a shared file system, soon after the first files of each
// were needed.
//
// A shared file system answers each read after a round trip, but all files of the partition will be
// needed. So a thread reads it from its beginning to its end, in large pieces, into the page cache,
// and makes the files whose bytes have arrived. Partitions follow each other in the order of their
// first use, until the budget is used up. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "store/pack/codec.h"
#include "store/pack/pack.h"

namespace millrace::store {

struct ReadAheadOptions {
  uint64_t budget_bytes = 0;
  bool only_shared = true;  // leave partitions alone that are on storage of this node
  // Called by the thread for each file whose bytes are there; may be empty.
  std::function<void(uint32_t index, BlockCodec& codec)> make;
};

class ReadAhead {
 public:
  // Null if there is nothing to read ahead. The reader must live longer.
  static Result<std::unique_ptr<ReadAhead>> start(const PackReader& reader,
                                                  ReadAheadOptions options);

  // So many files of a partition must be needed before it is read. One that looks at a few files
  // does not read them all.
  static constexpr uint32_t kNeededMin = 8;

  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // A file of this partition is needed.
  void note(uint32_t partition) {
    std::atomic<uint32_t>& needed = needed_[partition];
    if (needed.load(std::memory_order_relaxed) >= kNeededMin) return;
    if (needed.fetch_add(1, std::memory_order_relaxed) + 1 == kNeededMin) add(partition);
  }

  uint64_t read_bytes() const { return read_bytes_; }

 private:
  ReadAhead(const PackReader& reader, ReadAheadOptions options)
      : reader_(reader),
        options_(std::move(options)),
        budget_bytes_(options_.budget_bytes),
        needed_(reader.catalogue().partition_count()) {}

  void add(uint32_t partition);
  void run();
  void read(uint32_t partition);
  std::vector<uint32_t> files_of(uint32_t partition) const;

  const PackReader& reader_;
  const ReadAheadOptions options_;
  uint64_t budget_bytes_;                      // what is left of it; used by the thread only
  std::vector<std::atomic<uint32_t>> needed_;  // by partition: files; kNeededMin: it is read
  std::atomic<uint64_t> read_bytes_ = 0;
  std::atomic<bool> is_ending_ = false;

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint32_t> waiting_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace millrace::store
