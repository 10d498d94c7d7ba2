// TieredSource: a slow source with the samples that are read again kept nearer.
//
//   ASSIGN_OR_RETURN(auto tiered, TieredSource::open({.source = slow, .order = order,
//                                                     .memory_bytes = 8 << 30}));
//
// A sample comes from memory, from a file on the local disk, from a rank that was told to hold it,
// or from the source, whichever of those that have it has been fastest lately. What is kept follows
// from the known order (placement.h, hold_set.h): docs/design/clairvoyant.md. The bytes are
// always the source's; a tier that fails only makes reads slower, except a rank that died, which is
// an error.
//
// It must know which epoch a read is of, and reads of two epochs are mixed where the loader's
// threads run ahead over the end of one: it is the epoch in which the sample stands nearest to
// where the reads are. start_epoch() says where they go on; else epochs follow each other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "comm/messages.h"
#include "data/source.h"
#include "io/engine.h"
#include "loader/tiers/disk.h"
#include "loader/tiers/memory.h"
#include "loader/tiers/peer.h"
#include "loader/tiers/placement.h"
#include "loader/tiers/tier_speeds.h"

namespace millrace::loader {

struct TieredOptions {
  std::shared_ptr<const data::SampleSource> source;  // shared with the caller
  std::shared_ptr<const Order> order;                // likewise
  World world;
  uint64_t batch_size = 1;  // of the loader, as its tail, for what the last step of an epoch reads
  Tail tail = Tail::kUneven;
  uint32_t horizon_epochs = 0;  // 0: twice the ranks, 8 to 64: a rank meets a sample again by then
  uint64_t epoch_limit = ~uint64_t{0};  // epochs of the whole run, where known
  uint64_t memory_bytes = 0;            // 0: no such tier
  uint64_t disk_bytes = 0;              // likewise
  std::filesystem::path disk_directory;
  std::shared_ptr<io::Engine> disk_engine;  // null: posix
  // Null: no peers. Shared with whoever opened them, since a read that is stuck may outlive it.
  std::shared_ptr<comm::Messages> messages;
  comm::MessageTag tag{302};  // of the questions to peers, the job's over
  // What the tiers are timed by; null: the machine's. Lives longer than the source and its reads.
  const Clock* clock = nullptr;
};

struct TierUse {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double bytes_per_second = 0;  // lately; 0: not used yet
};

struct TieredStats {
  std::array<TierUse, kTierCount> tiers;  // by Tier
  uint64_t memory_held_bytes = 0;
  uint64_t peer_refusals = 0;  // it did not have it
  uint64_t served = 0;         // samples given to peers
  uint64_t not_served = 0;     // refused to them, since the disk was slow
  DiskTierStats disk;

  const TierUse& of(Tier tier) const { return tiers[static_cast<size_t>(tier)]; }
  std::string text() const;  // a line a tier
};

class TieredSource final : public data::SampleSource {
 public:
  static Result<std::unique_ptr<TieredSource>> open(TieredOptions options);
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
  void start_epoch(data::Epoch epoch, uint64_t done) const override;
  bool can_read_ahead() const override { return options_.source->can_read_ahead(); }
  // From the next start_epoch() on, the order is this one. REQUIRES: of as many samples.
  void follow(std::shared_ptr<const Order> order);
  uint64_t group_count() const override { return options_.source->group_count(); }
  data::SampleId group_begin(uint64_t group) const override {
    return options_.source->group_begin(group);
  }

  TieredStats stats() const;
  // Waits until what is to be written to the disk is: for tests and for figures.
  void settle() const;

 private:
  friend class TieredReads;

  struct Tiers;  // what is held; peers look into it

  // Where a read puts its bytes: a buffer that grows, or memory of one size.
  struct Target {
    data::Buffer* room = nullptr;
    MutableByteView out;

    std::optional<MutableByteView> place_for(size_t size_bytes) const;
  };

  // One read: of which sample, when, and when again.
  struct Use {
    data::SampleId sample{};
    data::Epoch epoch{};
    std::shared_ptr<const Placement> placement;  // with other reads of the time
    std::optional<UseTime> next;
  };

  explicit TieredSource(TieredOptions options);
  Status open_tiers();
  Use begin_use(data::SampleId sample) const;
  data::Epoch epoch_of_read(data::SampleId sample) const;
  uint64_t slack() const;
  void move_towards(UseTime time) const;
  Result<ByteView> fetch(data::SampleId sample, Target& target) const;
  Result<std::optional<ByteView>> from_tiers(const Use& use, Target& target) const;
  std::optional<ByteView> from_memory(const Use& use, Target& target) const;
  std::optional<ByteView> from_disk(const Use& use, Target& target) const;
  Result<std::optional<ByteView>> from_peer(const Use& use, Target& target) const;
  Result<ByteView> from_source(const Use& use, Target& target) const;
  void keep(const Use& use, ByteView bytes, Tier from) const;
  std::chrono::nanoseconds clock_now() const { return options_.clock->monotonic(); }
  void count(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took) const;

  TieredOptions options_;
  std::shared_ptr<Tiers> tiers_;  // with the thread that answers peers, which may outlive this
  std::unique_ptr<PeerTier> peers_;

  // Where the reads stand.
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Placement> placement_;  // with reads under way in a changed epoch
  mutable data::Epoch epoch_{};                         // the latest of which samples are read
  mutable uint64_t reads_left_ = 0;                     // of it
  mutable UseTime now_{};                               // about where the reads are, in epoch_
  mutable uint64_t reads_until_refresh_ = 0;

  mutable TierSpeeds speeds_;
  struct Counts {
    std::atomic<uint64_t> samples{0};
    std::atomic<uint64_t> bytes{0};
  };
  mutable std::array<Counts, kTierCount> counts_;
  mutable std::atomic<uint64_t> peer_refusals_{0};
};

}  // namespace millrace::loader
