// DiskTier: encoded samples kept in one file on a local disk, at most so many bytes.
//
// The file has no name and only its user may open it (O_TMPFILE), and so it goes with the process,
// however that ends. On a file system that has no such files it gets a name that is removed at
// once; what a process left that was killed between the two is removed by the next. A thread of its
// own writes; where it falls behind, samples are not kept. A disk that is full or fails to write
// ends the taking in, quietly but counted; one that fails to read, or gives other bytes than were
// written (a checksum says so), loses that sample. Nobody who reads through the tier sees an error:
// there is always the source. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/bounded_queue.h"
#include "base/file.h"
#include "base/result.h"
#include "io/engine.h"
#include "loader/tiers/memory.h"

namespace millrace::loader {

// Where in [0, capacity) there is room: first fit, in whole blocks.
class Extents {
 public:
  static constexpr uint64_t kBlockBytes = 4096;  // as direct engines want them

  explicit Extents(uint64_t capacity_bytes);
  static uint64_t rounded(uint64_t size_bytes);

  std::optional<uint64_t> take(uint64_t size_bytes);  // the offset
  void give_back(uint64_t offset_bytes, uint64_t size_bytes);

 private:
  std::map<uint64_t, uint64_t> free_;  // offset to length; neighbours are joined
};

struct DiskTierOptions {
  std::shared_ptr<io::Engine> engine;  // shared with whoever chose it
  std::filesystem::path directory;
  uint64_t capacity_bytes = 0;
  size_t queued_writes_max = 64;
};

struct DiskTierStats {
  uint64_t held_bytes = 0;
  uint64_t held_samples = 0;
  uint64_t written_samples = 0;
  uint64_t skipped_writes = 0;  // the writer was behind
  uint64_t read_errors = 0;
  uint64_t leftovers_removed = 0;
  std::string ended_by;  // the error that ended the taking in; empty: none
};

class DiskTier {
 public:
  static Result<std::unique_ptr<DiskTier>> open(DiskTierOptions options);
  ~DiskTier();

  // Into the place that is given for its length. Nothing where it is not held, cannot be read, or
  // there is no place.
  using PlaceFor = std::function<std::optional<MutableByteView>(size_t size_bytes)>;
  std::optional<ByteView> read(data::SampleId sample, const PlaceFor& place_for);

  bool contains(data::SampleId sample) const;

  // Keeps it where its next use makes that worth it; later, by the thread that writes.
  void offer(data::SampleId sample, SampleBytes bytes, UseTime next_use);
  // Whether offer() would be of any use: to spare the copy.
  bool would_take(size_t size_bytes, UseTime next_use) const;

  void used(data::SampleId sample, std::optional<UseTime> next_use);
  void refresh(UseTime now, const HoldSet::NextUse& next_use);

  // Waits until all that was offered is written or not kept.
  void settle();

  DiskTierStats stats() const;

 private:
  struct Entry {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    uint32_t crc32c = 0;
    bool is_written = false;
    uint64_t generation = 0;  // a sample that went and came again is another entry
  };
  struct Write {
    data::SampleId sample{};
    SampleBytes bytes;
    UseTime next_use{};
  };

  DiskTier(DiskTierOptions options, File file, std::unique_ptr<io::Writer> writer,
           std::unique_ptr<io::Reader> reader);
  void write_all();
  void write_one(const Write& write);
  std::optional<Entry> reserve(const Write& write);
  void remove(data::SampleId sample);
  std::optional<Entry> find(data::SampleId sample) const;

  DiskTierOptions options_;
  File file_;  // open as long as the two that were opened through it
  std::unique_ptr<io::Writer> writer_;
  std::unique_ptr<io::Reader> reader_;
  mutable std::mutex mutex_;
  HoldSet held_;
  Extents extents_;
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t generation_ = 0;
  DiskTierStats stats_;
  uint64_t unsettled_ = 0;
  std::condition_variable settled_;
  BoundedQueue<Write> writes_;
  std::thread thread_;  // the last, since it uses the others
};

}  // namespace millrace::loader
