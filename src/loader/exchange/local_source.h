// LocalSource: the samples that this rank holds in its storage, as a source for a loader.
//
//   auto source = std::make_shared<LocalSource>(storage, dataset);
//   Loader::open({.source = source, .shuffle = Shuffle::kPartial, .world = ..., ...});
//
// Bytes come from the storage alone, those of its epoch; names, labels and groups from the dataset,
// which is not read. A sample that another rank holds is an error that says which: to fetch it from
// there, or from the dataset, would hide that the order and the storage do not agree, behind reads
// that are a hundred times slower.
//
// The samples of the next epoch are there when the exchange of this one is finished, and not
// before: a loader does not read ahead past the end of an epoch. After start_epoch(), which a
// loader calls, reads in any other epoch fail; where nobody calls it, the epoch is the storage's.
// An exchange may go on beside the reads; they end before it is finished, and one that does not
// fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/source.h"
#include "io/engine.h"
#include "loader/exchange/local_storage.h"
#include "loader/order/partial_moves.h"

namespace millrace::loader {

class LocalSource final : public data::SampleSource {
 public:
  // Both shared with the caller: the storage with the exchange, the dataset with other loaders.
  // REQUIRES: as many samples in both
  LocalSource(std::shared_ptr<const LocalStorage> storage,
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
  friend class LocalReads;

  static constexpr uint64_t kAnyEpoch = ~uint64_t{0};

  Result<data::Epoch> epoch_now() const;
  Error not_held(data::SampleId sample, data::Epoch epoch) const;
  Error failed(data::SampleId sample, data::Epoch epoch, const Error& error) const;

  std::shared_ptr<const LocalStorage> storage_;
  std::shared_ptr<const data::SampleSource> dataset_;
  PartialMoves moves_;
  std::unique_ptr<io::Engine> engine_;  // for reads in flight; null: there are none
  mutable std::atomic<uint64_t> begun_epoch_{kAnyEpoch};
};

}  // namespace millrace::loader
