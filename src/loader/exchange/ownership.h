// Ownership: which sample a rank holds in which slot in an epoch, and where its bytes are; and the
// file that stores this. docs/formats/shard-storage.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/sample.h"
#include "loader/order/order.h"
#include "wire/shard_storage.h"

namespace millrace::loader::exchange {

struct StorageOptions {
  std::filesystem::path directory;  // of this rank alone; created if missing
  order::Options order;             // partial
  uint32_t rank = 0;                // below order.shard_count
  uint64_t dataset = 0;             // data::fingerprint(); 0: unknown, not checked
  // How much a staging copies before it makes that durable, so that another can continue from
  // there.
  uint64_t staging_step_bytes = uint64_t{256} << 20;
};

// The number of slots of the rank's shard.
uint64_t slot_count_of(const StorageOptions& options);

class Ownership {
 public:
  using Entry = wire::OwnershipEntry;

  // `entries` are by slot. Fails if two entries share a sample or a place, if a sample is beyond
  // the dataset, or if a place is beyond the samples file, which has `samples_size_bytes`.
  static Result<Ownership> make(data::Epoch epoch, std::vector<Entry> entries,
                                const StorageOptions& options, uint64_t samples_size_bytes);

  // Parses a file. Fails if it is damaged or belongs to another job.
  static Result<Ownership> parse(ByteView bytes, const StorageOptions& options,
                                 uint64_t samples_size_bytes);

  // The bytes of the file.
  std::string bytes(const StorageOptions& options) const;

  data::Epoch epoch() const { return epoch_; }
  const std::vector<Entry>& entries() const { return entries_; }  // by slot

  // nullptr, or nullopt, if the rank does not hold the sample.
  const Entry* find(data::SampleId sample) const;
  std::optional<uint64_t> slot_of(data::SampleId sample) const;

 private:
  Ownership(data::Epoch epoch, std::vector<Entry> entries);

  data::Epoch epoch_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> by_sample_;  // slots
};

}  // namespace millrace::loader::exchange
