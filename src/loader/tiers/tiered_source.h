// TieredSource: a slow source, and faster tiers for samples that will be read again.
//
//   ASSIGN_OR_RETURN(auto tiered, TieredSource::open({.source = slow, .order = order,
//                                                     .memory_bytes = 8 << 30}));
//
// A sample comes from memory, from a file on the local disk, from the rank that should hold it, or
// from the source: from whichever has it and was fastest recently. The known order determines what
// is kept (placement.h, hold_set.h): docs/design/clairvoyant.md. The bytes are always those of the
// source. A tier that fails only makes reads slower, except a rank that died, which is an error.
//
// It must know the epoch of each read. At the end of an epoch the loader's threads mix reads of two
// epochs. A read is attributed to the epoch in which the sample is nearest to the current position.
// start_epoch() sets the position; otherwise epochs follow each other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/concurrency/mutex.h"
#include "base/system/clock.h"
#include "comm/messages.h"
#include "data/source.h"
#include "io/engine.h"
#include "loader/tiers/disk.h"
#include "loader/tiers/memory.h"
#include "loader/tiers/peer.h"
#include "loader/tiers/placement.h"
#include "loader/tiers/speeds.h"

namespace millrace::loader::tiers {

struct Options {
  std::shared_ptr<const data::SampleSource> source;  // shared with the caller
  std::shared_ptr<const order::Order> order;         // shared with the caller
  order::World world;
  // The options of the loader that determine what the last step of an epoch reads.
  uint64_t batch_size = 1;
  order::Tail tail = order::Tail::kUneven;
  // 0: twice the number of ranks, between 8 and 64. A rank reads a sample again within that time.
  uint32_t horizon_epochs = 0;
  uint64_t epoch_limit = ~uint64_t{0};  // epochs of the whole run, if known
  uint64_t memory_bytes = 0;            // 0: no such tier
  uint64_t disk_bytes = 0;              // 0: no such tier
  std::filesystem::path disk_directory;
  std::shared_ptr<io::Engine> disk_engine;  // null: posix
  // Null: no peers. Shared with the caller, because a stuck read may outlive it.
  std::shared_ptr<comm::Messages> messages;
  comm::MessageTag tag{302};  // of requests to peers; the same on all ranks
  // Times the tiers; null: the system clock. Must outlive the source and its reads.
  const Clock* clock = nullptr;
};

struct TierUse {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double bytes_per_second = 0;  // recently; 0: not used yet
};

struct Stats {
  std::array<TierUse, kTierCount> tiers;  // by Tier
  uint64_t memory_held_bytes = 0;
  uint64_t peer_refusals = 0;  // requests to peers that did not have the sample
  uint64_t served = 0;         // samples sent to peers
  uint64_t not_served = 0;     // samples refused to peers because the disk was slow
  DiskStats disk;

  const TierUse& of(Tier tier) const { return tiers[static_cast<size_t>(tier)]; }
  std::string text() const;  // one line per tier
};

class TieredSource final : public data::SampleSource {
 public:
  static Result<std::unique_ptr<TieredSource>> open(Options options);
  ~TieredSource() override;

  uint64_t sample_count() const override { return options_.source->sample_count(); }
  std::string name(data::SampleId sample) const override { return options_.source->name(sample); }
  std::optional<int64_t> label(data::SampleId sample) const override {
    return options_.source->label(sample);
  }
  Result<ByteView> read(data::SampleId sample, data::Buffer& room) const override;
  Result<size_t> read_into(data::SampleId sample, MutableByteView out) const override;
  data::ReadWays ways() const override { return options_.source->ways(); }
  Result<std::unique_ptr<data::SampleReads>> open_reads(size_t capacity) const override;
  void prepare(std::span<const data::SampleId> soon) const override;
  // What the tiers hold is not read from the source again, but the source does not know that.
  bool wants_order() const override { return options_.source->wants_order(); }
  void expect(const data::ComingOrder& order) const override { options_.source->expect(order); }
  void finished(std::span<const data::SampleId> read) const override {
    options_.source->finished(read);
  }
  void start_epoch(data::Epoch epoch, uint64_t done) const override;
  bool can_read_ahead() const override { return options_.source->can_read_ahead(); }
  // Uses this order from the next start_epoch() on. REQUIRES: as many samples and positions
  void follow(std::shared_ptr<const order::Order> order);
  // From the next start_epoch() on. REQUIRES: batch_size > 0
  void set_batch_size(uint64_t batch_size);
  uint64_t group_count() const override { return options_.source->group_count(); }
  data::SampleId group_begin(uint64_t group) const override {
    return options_.source->group_begin(group);
  }
  std::string group_path(uint64_t group) const override {
    return options_.source->group_path(group);
  }

  Stats stats() const;
  // Waits until pending writes to the disk are done; for tests and measurements.
  void settle() const;

 private:
  friend class TieredReads;

  struct Tiers;  // the samples held; peers are served from it

  // Where a read puts its bytes: a growing buffer, or memory of a fixed size.
  struct Target {
    data::Buffer* room = nullptr;
    MutableByteView out;

    std::optional<MutableByteView> place_for(size_t size_bytes) const;
  };

  // One read: of which sample, in which epoch, and when it is used next.
  struct Use {
    data::SampleId sample{};
    data::Epoch epoch{};
    UseTime time{};                              // of this read
    std::shared_ptr<const Placement> placement;  // shared with concurrent reads
    std::optional<UseTime> next;
  };

  explicit TieredSource(Options options);
  uint64_t position_count() const { return options_.order->size(); }  // of an epoch
  Status open_tiers();
  Use begin_use(data::SampleId sample) const;
  data::Epoch epoch_of_read(data::SampleId sample) const REQUIRES(mutex_);
  uint64_t slack() const;
  void move_towards(UseTime time) const REQUIRES(mutex_);
  Result<ByteView> fetch(data::SampleId sample, Target& target) const;
  Result<std::optional<ByteView>> from_tiers(const Use& use, Target& target) const;
  std::optional<ByteView> from_memory(const Use& use, Target& target) const;
  std::optional<ByteView> from_disk(const Use& use, Target& target) const;
  Result<std::optional<ByteView>> from_peer(const Use& use, Target& target) const;
  Result<ByteView> from_source(const Use& use, Target& target) const;
  void keep(const Use& use, ByteView bytes, Tier from) const;
  std::chrono::nanoseconds clock_now() const { return options_.clock->monotonic(); }
  void count(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took) const;

  Options options_;
  std::shared_ptr<Tiers> tiers_;  // shared with the thread that serves peers; may outlive this
  std::unique_ptr<Peer> peers_;

  // The current position of reads.
  mutable Mutex mutex_;
  // Shared with reads in progress.
  mutable std::shared_ptr<const Placement> placement_ GUARDED_BY(mutex_);
  mutable data::Epoch epoch_ GUARDED_BY(mutex_){};      // the latest epoch with reads
  mutable uint64_t reads_left_ GUARDED_BY(mutex_) = 0;  // in epoch_
  mutable UseTime now_ GUARDED_BY(mutex_){};            // approximate position of reads, in epoch_
  mutable uint64_t reads_until_refresh_ GUARDED_BY(mutex_) = 0;

  mutable Speeds speeds_;
  struct Counts {
    std::atomic<uint64_t> samples{0};
    std::atomic<uint64_t> bytes{0};
  };
  mutable std::array<Counts, kTierCount> counts_;
  mutable std::atomic<uint64_t> peer_refusals_{0};
};

}  // namespace millrace::loader::tiers
