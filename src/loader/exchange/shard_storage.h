// ShardStorage: the encoded samples that one rank holds in its own directory.
//
// One file has the samples and another their places (docs/formats/shard-storage.md). Samples that
// arrive for the next epoch go to places that this epoch does not use, so that a crash at any
// moment leaves this epoch intact; places are reused an epoch later. Each rank prepares the next
// epoch alone, and commits it when all have prepared it (settle.h): a rank that is lost in between
// leaves no sample without an owner.
//
// The samples first come from the dataset (staging.h), either all of them or what is missing.
// Another process can continue an interrupted staging.
//
// There is not one file per sample, because making ten thousand files durable waits for the disk
// ten thousand times; here it waits once. There are no punched holes where samples leave, because
// not every file system supports them.
//
// Any threads may call read(), even while one other thread stages. All other calls are for one
// thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "data/sample.h"
#include "loader/exchange/ownership.h"
#include "loader/exchange/staging_journal.h"

namespace millrace::loader::exchange {

struct FileExtent {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// The free parts of a file. Takes the smallest one that is large enough or, if there is none, the
// end of the file. Parts are not freed one by one: reset() declares what is in use, which also
// joins adjacent free parts.
class FreeExtents {
 public:
  static constexpr uint64_t kAlignBytes = 64;

  // Where `size_bytes` can be written. REQUIRES: size_bytes < 2^62
  uint64_t take(uint64_t size_bytes);

  // Everything outside of `used` becomes free. The file ends after the last used part.
  void reset(std::vector<FileExtent> used);

  uint64_t end_bytes() const { return end_bytes_; }

 private:
  std::set<std::pair<uint64_t, uint64_t>> free_;  // size, offset
  uint64_t end_bytes_ = 0;
};

class ShardStorage {
 public:
  // Creates it if it is missing, accessible only to this user (docs/formats/shard-storage.md).
  // Fails if another process uses it, if it belongs to another user or job, or if it is damaged.
  static Result<std::unique_ptr<ShardStorage>> open(const StorageOptions& options);

  // Removes a storage of this job whose rank is on another host now. Does nothing if open() would
  // fail or the directory holds no storage. Returns whether it removed the storage.
  static bool remove_left_behind(const StorageOptions& options);

  const StorageOptions& options() const { return options_; }
  uint64_t slot_count() const { return slot_count_; }

  // The epoch of the samples, and the prepared epoch; nullopt: none yet.
  std::optional<data::Epoch> epoch() const;
  std::optional<data::Epoch> prepared() const;

  // ---- this epoch ----

  std::vector<data::SampleId> samples() const;  // by slot
  bool holds(data::SampleId sample) const { return size_bytes(sample).has_value(); }
  std::optional<uint64_t> size_bytes(data::SampleId sample) const;  // nullopt: not held

  // For callers that read samples_path() themselves: the place of a sample in it, and a check that
  // the bytes read are those stored. Both fail like read().
  Result<Ownership::Entry> entry_of(data::SampleId sample) const;
  Status check(const Ownership::Entry& entry, ByteView bytes) const;
  std::filesystem::path samples_path() const;

  // Appends the bytes of a sample to `out`, checks them and returns their checksum. Fails with
  // kNotFound if the rank does not hold the sample, and with kCorrupt if the bytes have changed.
  Result<uint32_t> read(data::SampleId sample, std::string& out) const;

  // The same, but writes to the start of `out` and returns the number of bytes. Fails with
  // kExhausted if they do not fit.
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const;

  // Reads the bytes without checking them and returns their stored checksum, for callers that pass
  // on both and check at the receiver. Saves a pass over the bytes.
  // REQUIRES: out.size() == size_bytes(sample)
  Result<uint32_t> read_unchecked(data::SampleId sample, MutableByteView out) const;

  // ---- staging from the dataset ----

  // Abandons the epoch and begins one with these samples by slot. Keeps wanted samples that are
  // held or were copied by an interrupted staging. Returns the slots that must still be staged;
  // prepare() and commit() follow. REQUIRES: wanted.size() == slot_count(), no duplicates
  Result<std::vector<uint64_t>> begin_staging(std::span<const data::SampleId> wanted);

  // Makes what was staged since begin_staging() durable, so that another process can continue.
  Status save_staging();

  // ---- the next epoch ----

  // Stores the sample of a slot in the next epoch. Not durable yet. REQUIRES: slot < slot_count()
  Status stage(uint64_t slot, data::SampleId sample, ByteView bytes);
  // The same, in the slot of a held sample that leaves, with a known checksum.
  // REQUIRES: checksum == crc32c(bytes)
  Status stage_for(data::SampleId leaving, data::SampleId sample, ByteView bytes,
                   uint32_t checksum);

  // Makes epoch `next` durable: the staged slots, and this epoch's samples in the others. Fails if
  // a slot would be empty or a sample would be in two slots.
  Status prepare(data::Epoch next);

  // Makes the prepared epoch the current one.
  Status commit();

  // Discards what was staged and prepared.
  Status discard();

  // The total size of the epoch's samples, the most samples stored at one time, and the length of
  // their file.
  uint64_t held_bytes() const;
  uint64_t stored_count_max() const { return stored_count_max_; }
  uint64_t file_size_bytes() const { return file_size_bytes_; }

 private:
  using Entry = Ownership::Entry;
  using Shared = std::shared_ptr<const Ownership>;  // readers hold on to it while it is replaced

  explicit ShardStorage(const StorageOptions& options);

  std::filesystem::path path(std::string_view name) const { return options_.directory / name; }
  Status check_directory() const;
  bool has_list() const;
  Status check_samples() const;
  Error not_ours(std::string_view name) const;
  Status lock();
  void remove_unfinished() const;
  bool remove_files() const;
  Result<Shared> load(std::string_view name) const;
  Status read_bytes(const Entry& entry, MutableByteView out) const;
  Status stage(uint64_t slot, data::SampleId sample, ByteView bytes, uint32_t checksum);
  Shared owned() const;
  void free_unused();
  std::vector<std::pair<uint64_t, Entry>> keep(std::span<const data::SampleId> wanted) const;
  Status drop_owned();

  StorageOptions options_;
  uint64_t slot_count_ = 0;
  File file_;
  FreeExtents places_;
  mutable Mutex mutex_;
  Shared owned_ GUARDED_BY(mutex_);
  Shared next_;                                     // prepared
  std::vector<std::pair<uint64_t, Entry>> staged_;  // slot, entry
  std::optional<StagingJournal> journal_;           // from begin_staging() to commit()
  size_t saved_count_ = 0;                          // entries of staged_ that the journal has
  uint64_t unsaved_bytes_ = 0;
  // Other threads may read these while samples are staged:
  std::atomic<uint64_t> stored_count_max_ = 0;
  std::atomic<uint64_t> file_size_bytes_ = 0;
};

}  // namespace millrace::loader::exchange
