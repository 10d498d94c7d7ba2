// StagingJournal: which samples a staging has copied so far, so that another goes on from there.
//
// An entry is believed only as a whole, and was written when its sample was durable. A journal that
// is missing, damaged or of another dataset says nothing: the samples are then copied again, which
// is never wrong. docs/formats/local-storage.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"
#include "loader/exchange/ownership.h"

namespace millrace::loader {

class StagingJournal {
 public:
  using Entry = Ownership::Entry;

  // Whether it is a journal of this dataset.
  static bool is_of(ByteView bytes, const StorageOptions& options);

  // What the file says, up to its first damage.
  static std::vector<Entry> parse(ByteView bytes, const StorageOptions& options);
  static std::vector<Entry> read(const std::filesystem::path& path, const StorageOptions& options);

  // A new file in place of any old one, which says that these are there.
  static Result<StagingJournal> create(const std::filesystem::path& path,
                                       const StorageOptions& options,
                                       std::span<const Entry> entries);

  // Durable on return. REQUIRES: so are the samples
  Status append(std::span<const Entry> entries);

 private:
  StagingJournal(File file, uint64_t end_bytes) : file_(std::move(file)), end_bytes_(end_bytes) {}

  File file_;
  uint64_t end_bytes_ = 0;
};

}  // namespace millrace::loader
