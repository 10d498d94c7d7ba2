// StagingJournal: which samples a staging has copied so far, so that another can continue from
// there.
//
// An entry counts only if it is complete, and is written only after its sample is durable. A
// journal that is missing, damaged or of another dataset is ignored: the samples are then copied
// again, which is never wrong. docs/formats/shard-storage.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"
#include "loader/exchange/ownership.h"

namespace millrace::loader::exchange {

class StagingJournal {
 public:
  using Entry = Ownership::Entry;

  // Whether it is a journal of this dataset.
  static bool is_of(ByteView bytes, const StorageOptions& options);

  // The entries before the first damaged one.
  static std::vector<Entry> parse(ByteView bytes, const StorageOptions& options);
  static std::vector<Entry> read(const std::filesystem::path& path, const StorageOptions& options);

  // Replaces any old file by a new one with these entries.
  static Result<StagingJournal> create(const std::filesystem::path& path,
                                       const StorageOptions& options,
                                       std::span<const Entry> entries);

  // Durable on return. REQUIRES: the samples are durable
  Status append(std::span<const Entry> entries);

 private:
  StagingJournal(File file, uint64_t end_bytes) : file_(std::move(file)), end_bytes_(end_bytes) {}

  File file_;
  uint64_t end_bytes_ = 0;
};

}  // namespace millrace::loader::exchange
