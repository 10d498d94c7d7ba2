// LocalStorage: the encoded samples that one rank holds in a directory of its own.
//
// Samples lie in one file and their places in another (docs/formats/local-storage.md). What arrives
// for the next epoch goes to places that nothing of this epoch needs, so that a crash at any moment
// leaves what this epoch holds; places are used again an epoch later. The next epoch is prepared by
// each rank alone and committed when all have prepared (settle.h): a rank that is lost in between
// leaves no sample without an owner.
//
// The samples first come from the dataset (staging.h), whole or what is missing; a staging that is
// interrupted is gone on with, also by another process.
//
// Not a file a sample: making ten thousand of them durable is ten thousand waits for the disk, and
// here it is one. Not a hole punched where a sample leaves: not every file system can.
//
// read() may be called by any threads, also while one other stages. The other calls are one
// thread's at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"
#include "data/sample.h"
#include "loader/exchange/free_extents.h"
#include "loader/exchange/ownership.h"
#include "loader/exchange/staging_journal.h"

namespace millrace::loader {

class LocalStorage {
 public:
  // Makes it if it is not there, for this user alone (docs/formats/local-storage.md). Fails if
  // another process uses it, if it belongs to another user or another job, and if it is damaged.
  static Result<std::unique_ptr<LocalStorage>> open(const StorageOptions& options);

  // Removes a storage of this job whose rank is on another node now. Leaves it alone if open()
  // would fail, or if the directory holds no storage. Returns whether it was removed.
  static bool remove_left_behind(const StorageOptions& options);

  const StorageOptions& options() const { return options_; }
  uint64_t slot_count() const { return slot_count_; }

  // The epoch that the samples are of, and the one that is prepared; nothing: none yet.
  std::optional<data::Epoch> epoch() const;
  std::optional<data::Epoch> prepared() const;

  // ---- of the epoch ----

  std::vector<data::SampleId> samples() const;  // by slot
  bool holds(data::SampleId sample) const { return size_bytes(sample).has_value(); }
  std::optional<uint64_t> size_bytes(data::SampleId sample) const;  // nothing: not held

  // Where a sample lies in the file of samples, samples_path(), for who reads it there, and whether
  // what was read is what was stored. Fail as read() does.
  Result<Ownership::Entry> entry_of(data::SampleId sample) const;
  Status check(const Ownership::Entry& entry, ByteView bytes) const;
  std::filesystem::path samples_path() const;

  // The bytes of a sample, checked, at the end of `out`; their checksum. Fails with kNotFound where
  // the rank does not hold it, and with kCorrupt where they are not what was stored.
  Result<uint32_t> read(data::SampleId sample, std::string& out) const;

  // Likewise, at the begin of `out`; how many they were. Fails with kExhausted where they are more.
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const;

  // As they lie, and the checksum with which they were stored: for who hands on both, to be checked
  // where they arrive. One pass over the bytes less. REQUIRES: out.size() == size_bytes(sample)
  Result<uint32_t> read_unchecked(data::SampleId sample, MutableByteView out) const;

  // ---- from the dataset ----

  // Gives up the epoch, and begins one that has these samples by slot. Of what was held, or copied
  // by a staging that was interrupted, all that is wanted stays. Which slots are to be staged yet;
  // then follow prepare() and commit(). REQUIRES: wanted.size() == slot_count(), nothing twice
  Result<std::vector<uint64_t>> begin_staging(std::span<const data::SampleId> wanted);

  // Makes what was staged since begin_staging() durable, for another process to go on with.
  Status save_staging();

  // ---- of the next epoch ----

  // Stores what a slot holds in the next epoch. Not durable yet. REQUIRES: slot < slot_count()
  Status stage(uint64_t slot, data::SampleId sample, ByteView bytes);
  // In the slot of a sample that is held and leaves; of bytes whose checksum is known.
  // REQUIRES: checksum == crc32c(bytes)
  Status stage_for(data::SampleId leaving, data::SampleId sample, ByteView bytes,
                   uint32_t checksum);

  // Makes durable what `next` holds: the staged slots, and this epoch's samples in the others.
  // Fails where a slot would be empty, or a sample in two.
  Status prepare(data::Epoch next);

  // The prepared epoch becomes the epoch.
  Status commit();

  // Forgets what was staged and prepared.
  Status discard();

  // The samples of the epoch together; the most samples that were stored at a time; and the length
  // of their file.
  uint64_t held_bytes() const;
  uint64_t stored_count_max() const { return stored_count_max_; }
  uint64_t file_size_bytes() const { return file_size_bytes_; }

 private:
  using Entry = Ownership::Entry;
  using Shared = std::shared_ptr<const Ownership>;  // readers keep it while it is replaced

  explicit LocalStorage(const StorageOptions& options);

  std::filesystem::path path(std::string_view name) const { return options_.directory / name; }
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
  mutable std::mutex mutex_;
  Shared owned_;                                    // under mutex_
  Shared next_;                                     // prepared
  std::vector<std::pair<uint64_t, Entry>> staged_;  // slot, entry
  std::optional<StagingJournal> journal_;           // from begin_staging() to commit()
  size_t saved_count_ = 0;                          // of staged_, that the journal has
  uint64_t unsaved_bytes_ = 0;
  // For who asks while samples are staged:
  std::atomic<uint64_t> stored_count_max_ = 0;
  std::atomic<uint64_t> file_size_bytes_ = 0;
};

}  // namespace millrace::loader
