// loader: the batches of a rank in order, read and decoded ahead by threads.
//
//   ASSIGN_OR_RETURN(auto loader, Loader::open({.source = ..., .decoder = ..., .batch_size = 64}));
//   RETURN_IF_ERROR(loader->start_epoch(Epoch{0}));
//   while (true) {
//     ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, loader->next());
//     if (!batch) break;
//     ...
//   }
//
// Batches come in the order of the Order, whatever the threads do. Memory is bounded: the options
// limit the batches in progress, and a buffer is reused once the consumer releases it. The workers
// are threads, not processes; after a fork, calls in the child fail with an explanation.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "data/batch.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/batch_budget.h"
#include "loader/exchange/held_shard.h"
#include "loader/order/order.h"
#include "loader/order/share.h"
#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/read_choice.h"
#include "loader/tiers/tiered_source.h"

namespace millrace::loader {

// What LoaderOptions needs, under shorter names.
using order::Shuffle;
using order::Tail;
using order::World;

// How far a job has come: a few numbers, the same on all ranks. It contains everything that
// determines the order, so that a state of another dataset or seed is refused.
struct LoaderState {
  order::Options order;             // without group_begins and drawing, which may be large
  std::optional<uint32_t> dataset;  // data::fingerprint(); nullopt: unknown, not compared
  data::Epoch epoch{};
  uint64_t done = 0;  // positions of the epoch that all ranks together have consumed
  // Order::drawn_from() of the epoch; nullopt: none, or unknown and not compared.
  std::optional<uint32_t> drawn_from;

  // The options of the order without what may be large, and its fingerprint.
  static LoaderState of(const order::Order& order, data::Epoch epoch, uint64_t done);
  std::string text() const;  // one line of JSON, with a version
  static Result<LoaderState> parse(std::string_view text);
};

// Fails with the difference if a loader whose own state is `own` cannot continue from `state`. The
// number of shards is not compared. `own` has the epoch of `state`.
Status check_continues(const LoaderState& state, const LoaderState& own);

// Where to keep samples that will be read again: docs/design/clairvoyant.md.
struct TierOptions {
  uint64_t memory_bytes = 0;  // 0: no such tier
  uint64_t disk_bytes = 0;    // 0: no such tier
  std::filesystem::path disk_directory;
  std::shared_ptr<comm::Messages> messages;  // to fetch samples from other ranks; null: never

  bool any() const { return memory_bytes > 0 || disk_bytes > 0; }
};

// Partial shuffling with shard storage: each rank holds its shard on its own storage, and samples
// that change ranks move while the epoch is trained (exchange/held_shard.h). The batches are the
// same as without it. open(), start_epoch(), restore() and the next() that ends an epoch are then
// collective.
struct ShardOptions {
  std::filesystem::path directory;   // on this host's disk; empty: read samples from the source
  std::shared_ptr<comm::Comm> comm;  // of the world's ranks; null: there is only one rank
  bool shows_progress = false;       // of the first copy, on a terminal
};

struct LoaderOptions {
  std::shared_ptr<const data::SampleSource> source;  // shared with the caller
  std::shared_ptr<const data::Decoder> decoder;      // shared with the caller
  Shuffle shuffle = Shuffle::kGlobal;
  double fraction = 0.1;     // partial
  uint32_t shard_count = 0;  // local, partial; 0: one per rank
  // weighted, mixture, listed: the positions of an epoch, and what to draw from. A list must be in
  // drawing->lists before its epoch is started or restored; that of the next epoch may follow
  // later, and is then prefetched too.
  uint64_t position_count = 0;
  std::shared_ptr<const order::Drawing> drawing;  // shared with the caller
  uint64_t seed = 0;
  World world;
  uint64_t batch_size = 1;
  Tail tail = Tail::kUneven;
  // Epochs of the whole run, counted from epoch 0 even if a state resumes in a later one. After the
  // last epoch nothing is prefetched or kept, but another epoch may still be started. 0: unknown.
  uint64_t epoch_count = 0;
  uint32_t thread_count = 0;                     // 0: tuned from the time the consumer waits
  uint32_t prefetch_batches = 0;                 // 0: tuned likewise
  uint64_t memory_bytes = batch_budget_bytes();  // limit for all batches in progress
  // Reads in flight per thread, if that is faster than one at a time. The engine of the source says
  // how it can be read; for `auto` the loader measures. 1: one at a time.
  uint32_t io_depth = 32;
  TierOptions tiers;
  ShardOptions shard;
  // True: count bad samples and leave them out, which shortens the batch. False: fail.
  bool skips_bad_samples = false;
  // After this time, an error names the stuck read.
  std::chrono::nanoseconds read_deadline = std::chrono::seconds(60);
  pipeline::MemoryHooks memory_hooks;  // for batches, such as pinned memory; empty: ordinary memory
  // A waiting next() calls this a few times per second; true makes it return kCancelled.
  std::function<bool()> is_interrupted;
  // False: next() is no region of a trace, because the consumer marks its own waits.
  bool marks_waits = true;
  // Called by a thread of the loader when the batch that next() returns becomes ready, for a
  // consumer that waits for other things too. It may outlive the loader.
  std::function<void()> on_ready;
};

struct LoaderStats {
  uint64_t batches = 0;  // handed out
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t bad_samples = 0;
  std::string first_bad_sample;        // the error of the first one
  std::chrono::nanoseconds read{};     // summed over all threads
  std::chrono::nanoseconds decode{};   // summed over all threads
  std::chrono::nanoseconds waited{};   // by the consumer, for a batch that was not ready
  std::chrono::nanoseconds blocked{};  // by threads, for the consumer to release a buffer
  uint32_t thread_count = 0;           // now
  uint32_t prefetch_batches = 0;       // now
  uint64_t buffers_allocated = 0;      // for batches, since the start; excludes reuse
  pipeline::ReadStats reads;           // how samples are read, and the measurement of each way
  std::optional<tiers::Stats> tiers;   // if there are tiers, from the first epoch on
  std::optional<exchange::HeldStats> shard;  // if the rank has shard storage
};

class Loader {
 public:
  static Result<std::unique_ptr<Loader>> open(LoaderOptions options);
  virtual ~Loader() = default;  // ends the threads; the consumer's batches stay valid

  // Begins an epoch at its start; drops batches in progress of any other epoch.
  virtual Status start_epoch(data::Epoch epoch) = 0;

  // Changes the number of samples per batch. There is no position afterwards: continue with
  // start_epoch(), or with restore() of the state before this call, on all ranks alike. The samples
  // that tiers and shard storage hold stay. If it fails, nothing has changed.
  virtual Status set_batch_size(uint64_t batch_size) = 0;

  // The next batch; nullopt at the end of the epoch. One thread at a time.
  virtual Result<std::optional<data::Batch>> next() = 0;

  // Whether next() would return without waiting for a batch. On the thread of next().
  virtual bool is_ready() const = 0;
  // Counts a wait of the consumer for is_ready(), from which the number of threads is tuned.
  virtual void count_wait(std::chrono::nanoseconds waited) = 0;

  // Makes a next() that waits, now or later, return kCancelled, for Ctrl-C. Any thread.
  virtual void cancel() = 0;

  virtual uint64_t batch_count() const = 0;       // of the whole current epoch
  virtual const order::Order& order() const = 0;  // valid until restore()
  virtual LoaderState state() const = 0;          // after the batches that next() has returned
  // Continues after the batches that `state` covers, even if the world had another size.
  virtual Status restore(const LoaderState& state) = 0;
  virtual LoaderStats stats() const = 0;

  // With shard storage: the epoch whose samples the ranks hold, the same on all ranks. A job that
  // was restarted without a state continues there: start_epoch(*storage_epoch()). Nullopt if the
  // storages are empty or there are none. Call it on the thread of next().
  virtual std::optional<data::Epoch> storage_epoch() const { return {}; }
};

}  // namespace millrace::loader
