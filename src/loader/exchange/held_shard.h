// HeldShard: the shard that a rank holds on its own storage, from one epoch to the next.
//
//   ASSIGN_OR_RETURN(auto shard, HeldShard::open({.directory = ..., .dataset = ..., .comm = ...}));
//   RETURN_IF_ERROR(shard->bring_to(Epoch{0}));         // staged once; nothing to do later
//   RETURN_IF_ERROR(shard->start_exchange());
//   for (...) { ... shard->source() ...; RETURN_IF_ERROR(shard->advance(i + 1, count)); }
//   RETURN_IF_ERROR(shard->finish_exchange());          // shard->epoch() is 1
//
// It combines the storage, its recovery after a crash, staging and the exchange. open(), bring_to()
// and finish_exchange() are collective. Every rank must also call start_exchange(), but no rank
// waits in it. Single-threaded, except source(), which any thread may use.
//
// A job may want another epoch than the storage holds. The ranks then do not exchange samples epoch
// by epoch: a jump by k epochs would take k durable exchanges, and there is no plan for going back.
// Each rank keeps what it still needs and reads the rest from the dataset
// (docs/design/shuffling.md).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "comm/comm.h"
#include "comm/messages.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/shard_source.h"
#include "loader/exchange/shard_storage.h"
#include "loader/exchange/staging.h"

namespace millrace::loader::exchange {

struct HeldShardOptions {
  std::filesystem::path directory;  // on this host; has a subdirectory for every rank
  order::Options order;             // partial; as many shards as ranks
  std::shared_ptr<const data::SampleSource> dataset;  // shared with other loaders
  std::shared_ptr<comm::Comm> comm;                   // shared with the caller
  StagingOptions staging;
};

struct HeldStats {
  Stats exchange;
  StagingStats staging;
  uint64_t samples = 0;  // held in this epoch
  uint64_t sample_bytes = 0;
  uint64_t file_bytes = 0;        // length of their file, including free places
  uint64_t stored_count_max = 0;  // the most samples stored at one time
  std::string restaged;           // why samples were staged again; empty: they were not
  uint64_t storages_removed = 0;  // storages in the directory of ranks that are now on other hosts
};

class HeldShard {
 public:
  // Settles the storage with those of the other ranks. Stages nothing.
  static Result<std::unique_ptr<HeldShard>> open(HeldShardOptions options);

  // The epoch that all ranks hold; nullopt: samples must be staged.
  std::optional<data::Epoch> epoch() const { return epoch_; }
  // The same or, if ranks disagree, the newest epoch that any rank held: a job without a state can
  // continue there. Nullopt if no rank holds any samples.
  std::optional<data::Epoch> storage_epoch() const { return epoch_ ? epoch_ : newest_; }
  data::Epoch first_epoch() const { return storage_epoch().value_or(data::Epoch{0}); }

  // Makes every rank hold its samples of `epoch`. First finishes an exchange in progress.
  Status bring_to(data::Epoch epoch);

  Status start_exchange();
  bool is_exchanging() const { return exchange_->is_under_way(); }
  // If the exchange has failed, finishes it at once. That tells the other ranks, so that none waits
  // for this one at the end of the epoch.
  Status advance(uint64_t done, uint64_t count);
  Status finish_exchange();

  const ShardStorage& storage() const { return *storage_; }
  std::shared_ptr<const ShardSource> source() const { return source_; }
  HeldStats stats() const;

 private:
  explicit HeldShard(HeldShardOptions options) : options_(std::move(options)) {}
  Status open_storage();
  void remove_left_behind();
  std::filesystem::path directory_of(uint32_t rank) const;

  HeldShardOptions options_;
  std::shared_ptr<ShardStorage> storage_;  // shared with source_
  std::shared_ptr<const ShardSource> source_;
  std::unique_ptr<comm::Messages> messages_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<data::Epoch> epoch_;
  std::optional<data::Epoch> newest_;
  uint64_t storages_removed_ = 0;

  mutable Mutex mutex_;  // guards the next two against other threads
  StagingStats staging_ GUARDED_BY(mutex_);
  std::string restaged_ GUARDED_BY(mutex_);
};

}  // namespace millrace::loader::exchange
