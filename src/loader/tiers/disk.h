// Disk: keeps encoded samples in one file on a local disk, within a capacity. Thread-safe.
//
// The file has no name and only its user may open it (O_TMPFILE), so it disappears with the
// process, however that ends. On a file system without such files it gets a name that is removed at
// once; if a process is killed in between, the next one removes the file. The tier has its own
// writer thread; if that falls behind, samples are not kept. If the disk is full or a write fails,
// the tier takes no more samples and reports it only in the statistics. If a read fails or returns
// other bytes than were written (by their checksum), the tier drops that sample. Readers of the
// tier never see an error, because they can always read the source.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>

#include "base/concurrency/bounded_queue.h"
#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "io/engine.h"
#include "loader/tiers/memory.h"

namespace millrace::loader::tiers {

// Allocates space in [0, capacity): first fit, in whole blocks.
class Extents {
 public:
  static constexpr uint64_t kBlockBytes = 4096;  // as direct engines need

  explicit Extents(uint64_t capacity_bytes);
  static uint64_t rounded(uint64_t size_bytes);

  std::optional<uint64_t> take(uint64_t size_bytes);  // the offset
  void give_back(uint64_t offset_bytes, uint64_t size_bytes);

 private:
  std::map<uint64_t, uint64_t> free_;  // offset to length; adjacent ones are joined
};

struct DiskOptions {
  std::shared_ptr<io::Engine> engine;  // shared with the caller
  std::filesystem::path directory;
  uint64_t capacity_bytes = 0;
  size_t queued_writes_max = 64;
};

struct DiskStats {
  uint64_t held_bytes = 0;
  uint64_t held_samples = 0;
  uint64_t written_samples = 0;
  uint64_t skipped_writes = 0;  // the writer was behind
  uint64_t read_errors = 0;
  uint64_t leftovers_removed = 0;
  std::string ended_by;  // the error after which the tier takes no more samples; empty: none
};

class Disk {
 public:
  static Result<std::unique_ptr<Disk>> open(DiskOptions options);
  ~Disk();

  // Reads the sample into the place that `place_for` returns for its length. Nullopt if the sample
  // is not held or cannot be read, or if there is no place.
  using PlaceFor = std::function<std::optional<MutableByteView>(size_t size_bytes)>;
  std::optional<ByteView> read(data::SampleId sample, const PlaceFor& place_for);

  bool contains(data::SampleId sample) const;

  // Keeps the sample if its next use is soon enough. Asynchronous: the writer thread decides.
  void offer(data::SampleId sample, SampleBytes bytes, UseTime next_use);
  // Whether offer() may succeed, to save a useless copy.
  bool would_take(size_t size_bytes, UseTime next_use) const;

  void used(data::SampleId sample, std::optional<UseTime> next_use);
  void refresh(UseTime now, const HoldSet::NextUse& next_use);

  // Waits until every offered sample is written or rejected.
  void settle();

  DiskStats stats() const;

 private:
  struct Entry {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    uint32_t crc32c = 0;
    bool is_written = false;
    uint64_t generation = 0;  // differs if the sample was dropped and kept again
  };
  struct Write {
    data::SampleId sample{};
    SampleBytes bytes;
    UseTime next_use{};
  };

  Disk(DiskOptions options, File file, std::unique_ptr<io::Writer> writer,
       std::unique_ptr<io::Reader> reader);
  void write_all();
  void write_one(const Write& write);
  std::optional<Entry> reserve(const Write& write);
  void remove(data::SampleId sample) REQUIRES(mutex_);
  std::optional<Entry> find(data::SampleId sample) const;

  DiskOptions options_;
  File file_;  // stays open for the writer and the reader that were opened through it
  std::unique_ptr<io::Writer> writer_;
  std::unique_ptr<io::Reader> reader_;
  mutable Mutex mutex_;
  HoldSet held_ GUARDED_BY(mutex_);
  Extents extents_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Entry> entries_ GUARDED_BY(mutex_);
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  DiskStats stats_ GUARDED_BY(mutex_);
  uint64_t unsettled_ GUARDED_BY(mutex_) = 0;
  std::condition_variable settled_;
  BoundedQueue<Write> writes_;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace millrace::loader::tiers
