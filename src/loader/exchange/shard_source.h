// ShardSource: a source of the samples in this rank's storage.
//
//   auto source = std::make_shared<ShardSource>(storage, dataset);
//   Loader::open({.source = source, .shuffle = Shuffle::kPartial, .world = ..., ...});
//
// Bytes come only from the storage, as of its epoch. Names, labels and groups come from the
// dataset, whose samples are not read. Reading a sample that another rank holds fails and names
// that rank. Fetching it from there, or from the dataset, would hide a mismatch of order and
// storage behind reads that are a hundred times slower.
//
// The samples of the next epoch are available only after the exchange of this one is finished, so a
// loader does not prefetch past the end of an epoch. After start_epoch(), which a loader calls,
// reads in any other epoch fail. If nobody calls it, reads are in the storage's epoch. Reads may
// run during an exchange but must end before it is finished; a later one fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/source.h"
#include "io/engine.h"
#include "loader/exchange/shard_storage.h"
#include "loader/order/partial_moves.h"

namespace millrace::loader::exchange {

class ShardSource final : public data::SampleSource {
 public:
  // Both are shared with the caller: the storage with the exchange, the dataset with other loaders.
  // REQUIRES: both have equally many samples
  ShardSource(std::shared_ptr<const ShardStorage> storage,
              std::shared_ptr<const data::SampleSource> dataset);

  uint64_t sample_count() const override { return dataset_->sample_count(); }
  std::string name(data::SampleId sample) const override { return dataset_->name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return dataset_->label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override;
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override;
  void start_epoch(data::Epoch epoch, uint64_t done) const override;
  bool can_read_ahead() const override { return false; }
  uint64_t group_count() const override { return dataset_->group_count(); }
  data::SampleId group_begin(uint64_t group) const override { return dataset_->group_begin(group); }

 private:
  friend class ShardReads;

  static constexpr uint64_t kAnyEpoch = ~uint64_t{0};

  Result<data::Epoch> epoch_now() const;
  Error not_held(data::SampleId sample, data::Epoch epoch) const;
  Error failed(data::SampleId sample, data::Epoch epoch, const Error& error) const;

  std::shared_ptr<const ShardStorage> storage_;
  std::shared_ptr<const data::SampleSource> dataset_;
  order::PartialMoves moves_;
  std::unique_ptr<io::Engine> engine_;  // for reads in flight; null: not available
  mutable std::atomic<uint64_t> begun_epoch_{kAnyEpoch};
};

}  // namespace millrace::loader::exchange
