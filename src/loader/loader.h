// loader: the batches of a rank, one after another, read and decoded ahead by threads.
//
//   ASSIGN_OR_RETURN(auto loader, Loader::open({.source = ..., .decoder = ..., .batch_size = 64}));
//   RETURN_IF_ERROR(loader->start_epoch(Epoch{0}));
//   while (true) {
//     ASSIGN_OR_RETURN(const std::optional<data::Batch> batch, loader->next());
//     if (!batch) break;
//     ...
//   }
//
// Batches come in the order of the sampler, whatever the threads do. Memory is bounded: as many
// batches are under way as the options say, in buffers that are used again when the consumer lets
// go of them. Threads, not processes; after a fork the child's calls fail and say why.
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
#include "loader/exchange/held_shard.h"
#include "loader/order/order.h"
#include "loader/order/share.h"
#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/read_choice.h"
#include "loader/tiers/tiered_source.h"

namespace millrace::loader {

// Where a job stands: a few numbers, the same on all ranks. Everything that decides the order is in
// it, so that a state of another dataset or another seed is refused and not continued.
struct LoaderState {
  OrderOptions order;               // without the group_begins, which come from the source
  std::optional<uint32_t> dataset;  // data::fingerprint(); nothing: not known, and not compared
  data::Epoch epoch{};
  uint64_t done = 0;  // positions of the epoch that all ranks together have used up

  std::string text() const;  // one line of JSON, with a version
  static Result<LoaderState> parse(std::string_view text);
};

// Whether a loader whose own state is `own` can go on from `state`, with any number of shards; else
// what differs.
Status check_continues(const LoaderState& state, const LoaderState& own);

// What is kept near of the samples that are read again: docs/design/clairvoyant.md.
struct TierOptions {
  uint64_t memory_bytes = 0;  // 0: no such tier
  uint64_t disk_bytes = 0;    // likewise
  std::filesystem::path disk_directory;
  std::shared_ptr<comm::Messages> messages;  // for what other ranks keep; null: they are not asked

  bool any() const { return memory_bytes > 0 || disk_bytes > 0; }
};

// Partial, with samples that move: each rank holds its own on its own storage, and those that go to
// other ranks travel while the epoch is trained (exchange/held_shard.h). The batches are the same
// as without. Opening, beginning an epoch and taking its end are then collective.
struct LocalOptions {
  std::filesystem::path directory;   // on this node's disk; empty: samples are read from the source
  std::shared_ptr<comm::Comm> comm;  // of the world's ranks; null: there is one rank
  bool shows_progress = false;       // of the first copy, on a terminal
};

struct LoaderOptions {
  std::shared_ptr<const data::SampleSource> source;  // shared with the caller
  std::shared_ptr<const data::Decoder> decoder;      // likewise
  Shuffle shuffle = Shuffle::kGlobal;
  double fraction = 0.1;     // partial
  uint32_t shard_count = 0;  // local, partial; 0: the ranks of the world
  uint64_t seed = 0;
  World world;
  uint64_t batch_size = 1;
  Tail tail = Tail::kUneven;
  // Epochs of the whole run, counted from epoch 0 also where a state goes on in a later one.
  // Nothing is read ahead past the last, nor kept for later; who begins another one gets it. 0: not
  // known.
  uint64_t epoch_count = 0;
  uint32_t thread_count = 0;                  // 0: tuned from the time the consumer waits
  uint32_t prefetch_batches = 0;              // 0: likewise
  uint64_t memory_bytes = uint64_t{1} << 30;  // the most that batches under way may take
  // Reads of a thread that are under way at once, where that is faster than one at a time: the
  // source's engine says how it can be read, and `auto` is measured. 1: one at a time.
  uint32_t io_depth = 32;
  TierOptions tiers;
  LocalOptions local;
  bool skips_bad_samples = false;  // counted and left out, and the batch is shorter; else an error
  std::chrono::nanoseconds read_deadline = std::chrono::seconds(60);  // then a stuck read is named
  MemoryHooks memory_hooks;  // where batches lie: pinned memory, for example; empty: the system's
  // Asked some times a second by a next() that waits; true makes it return kCancelled.
  std::function<bool()> is_interrupted;
};

struct LoaderStats {
  uint64_t batches = 0;  // handed out
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t bad_samples = 0;
  std::string first_bad_sample;        // the error of the first one
  std::chrono::nanoseconds read{};     // by all threads together
  std::chrono::nanoseconds decode{};   // likewise
  std::chrono::nanoseconds waited{};   // the consumer, for a batch that was not ready
  std::chrono::nanoseconds blocked{};  // threads, for the consumer to let go of a buffer
  uint32_t thread_count = 0;           // now
  uint32_t prefetch_batches = 0;       // now
  uint64_t buffers_allocated = 0;      // for batches, since the start; the others were used again
  ReadStats reads;                     // how samples are read, and what each way was measured as
  std::optional<TieredStats> tiers;    // where there are any, from the first epoch on
  std::optional<HeldStats> local;      // where the rank holds its samples
};

class Loader {
 public:
  static Result<std::unique_ptr<Loader>> open(LoaderOptions options);
  virtual ~Loader() = default;  // ends the threads; batches that are held stay good

  // Begins an epoch, from its start; what was under way of another one is dropped.
  virtual Status start_epoch(data::Epoch epoch) = 0;

  // The next batch; nothing at the end of the epoch. One thread at a time.
  virtual Result<std::optional<data::Batch>> next() = 0;

  // Makes a next() that waits, now or later, return kCancelled: for Ctrl-C. Any thread.
  virtual void cancel() = 0;

  virtual uint64_t batch_count() const = 0;  // of the epoch that was begun, from its start
  virtual const Order& order() const = 0;    // good until restore()
  virtual LoaderState state() const = 0;     // as of the batches that next() has returned
  // The next batch is the one after those that `state` has seen, also if it was another world's.
  virtual Status restore(const LoaderState& state) = 0;
  virtual LoaderStats stats() const = 0;

  // With a local directory: the epoch whose samples the ranks' disks hold, the same on all ranks. A
  // job that was started again without a state goes on there: start_epoch(*storage_epoch()).
  // Nothing if they are empty, or without a local directory. The thread of next().
  virtual std::optional<data::Epoch> storage_epoch() const { return {}; }
};

}  // namespace millrace::loader
