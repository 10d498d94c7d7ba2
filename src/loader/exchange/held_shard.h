// HeldShard: the samples that a rank holds on its own storage, from one epoch to the next.
//
//   ASSIGN_OR_RETURN(auto shard, HeldShard::open({.directory = ..., .dataset = ..., .comm = ...}));
//   RETURN_IF_ERROR(shard->bring_to(Epoch{0}));         // staged once; nothing to do later
//   RETURN_IF_ERROR(shard->start_exchange());
//   for (...) { ... shard->source() ...; RETURN_IF_ERROR(shard->advance(i + 1, count)); }
//   RETURN_IF_ERROR(shard->finish_exchange());          // shard->epoch() is 1
//
// It joins what is beside it: the storage, how it is settled after a crash, how it is staged, and
// the exchange. open(), bring_to() and finish_exchange() are collective, and so is
// start_exchange() in that every rank has to make it; no rank waits in the others. The calls are
// one thread's; source() is any thread's.
//
// What the storage holds of another epoch than a job wants is not moved between ranks step by step:
// of a jump by k epochs that would be k exchanges, each durable, and one back has no plan. Each
// rank keeps what it still needs, and reads the rest of the wanted epoch from the dataset
// (docs/design/shuffling.md).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/messages.h"
#include "loader/exchange/exchange.h"
#include "loader/exchange/local_source.h"
#include "loader/exchange/local_storage.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/staging.h"

namespace millrace::loader {

struct HeldShardOptions {
  std::filesystem::path directory;  // of this node; every rank has one of its own in it
  OrderOptions order;               // partial; as many shards as ranks
  std::shared_ptr<const data::SampleSource> dataset;  // shared with other loaders
  std::shared_ptr<comm::Comm> comm;                   // shared with whoever else talks
  StagingOptions staging;
};

struct HeldStats {
  ExchangeStats exchange;
  StagingStats staging;
  uint64_t samples = 0;  // held in this epoch
  uint64_t sample_bytes = 0;
  uint64_t file_bytes = 0;        // that they take, with places that are free again
  uint64_t stored_count_max = 0;  // the most samples that were stored at a time
  std::string restaged;           // why samples were staged though there were some; empty: were not
  uint64_t storages_removed = 0;  // that ranks left in the directory, which are on other nodes now
};

class HeldShard {
 public:
  // The storage is settled with those of the other ranks, and not staged yet.
  static Result<std::unique_ptr<HeldShard>> open(HeldShardOptions options);

  // Of the samples that all ranks hold; nothing: they have to be staged.
  std::optional<data::Epoch> epoch() const { return epoch_; }
  // The same, or the newest epoch that any rank held if they do not agree: a job without a state of
  // its own can go on there. Nothing if no rank holds any samples.
  std::optional<data::Epoch> storage_epoch() const { return epoch_ ? epoch_ : newest_; }
  data::Epoch first_epoch() const { return storage_epoch().value_or(data::Epoch{0}); }

  // Every rank holds its samples of `epoch`. An exchange that is under way is finished first.
  Status bring_to(data::Epoch epoch);

  Status start_exchange();
  bool is_exchanging() const { return exchange_->is_under_way(); }
  // Where the exchange has failed, it is finished at once, which tells the other ranks: nobody
  // waits at the end of the epoch for one who does not come.
  Status advance(uint64_t done, uint64_t count);
  Status finish_exchange();

  const LocalStorage& storage() const { return *storage_; }
  std::shared_ptr<const LocalSource> source() const { return source_; }
  HeldStats stats() const;

 private:
  explicit HeldShard(HeldShardOptions options) : options_(std::move(options)) {}
  Status open_storage();
  void remove_left_behind();
  std::filesystem::path directory_of(uint32_t rank) const;

  HeldShardOptions options_;
  std::shared_ptr<LocalStorage> storage_;  // shared with source_
  std::shared_ptr<const LocalSource> source_;
  std::unique_ptr<comm::Messages> messages_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<data::Epoch> epoch_;
  std::optional<data::Epoch> newest_;
  uint64_t storages_removed_ = 0;

  mutable std::mutex mutex_;  // for what other threads ask: the next two
  StagingStats staging_;
  std::string restaged_;
};

}  // namespace millrace::loader
