// Placement: when and by which rank samples are read in the coming epochs, and which rank should
// hold them.
//
// Pure functions of the order and the world: every rank knows what every other should hold, without
// communication. As in NoPFS, the home of a sample is the rank that reads it most often within a
// block of epochs, because most of its reads are then local; among equals, the rank that reads it
// first. Until its home has read it, the last rank that did keeps it for the next reader, so that a
// sample is read from the source once and not once per rank. The next use determines what is worth
// keeping (hold_set.h).
//
// In an order that is not a permutation, a sample may be read several times in an epoch, by several
// ranks. Its home then keeps it for the others from its first read of the block on, and nobody else
// does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/sample.h"
#include "loader/order/order.h"
#include "loader/order/share.h"

namespace millrace::loader::tiers {

// A position counted over all epochs: epoch * Order::size() + position.
enum class UseTime : uint64_t {};

struct PlacementOptions {
  std::shared_ptr<const order::Order> order;  // shared with the loader
  order::World world;
  uint64_t batch_size = 1;
  order::Tail tail = order::Tail::kUneven;
  uint32_t horizon_epochs = 8;  // how far to look ahead; also the length of a block
  // Epochs of the whole run, if known: there are no reads after that.
  uint64_t epoch_limit = ~uint64_t{0};
  bool shares = false;  // other ranks ask this one for samples that it holds
  // The epoch that started in the middle, and where: its ranks take turns from there.
  data::Epoch resumed_epoch{};
  uint64_t resumed_done = 0;
};

class Placement {
 public:
  // REQUIRES: an order of at least one position, 0 < horizon_epochs <= order->horizon_max()
  explicit Placement(PlacementOptions options);

  const PlacementOptions& options() const { return options_; }
  // When the epoch has the sample for the first time; if it never does, when the epoch ends.
  UseTime time_of(data::Epoch epoch, data::SampleId sample) const;

  // When this rank reads the sample in an epoch. If that is more than once, the time nearest to
  // `now`. If it is never, as if the rank read a position of another rank, or nullopt.
  std::optional<UseTime> time_near(data::Epoch epoch, data::SampleId sample, UseTime now) const;

  // The rank that is first to read the sample in an epoch; nullopt if the epoch leaves it out.
  std::optional<uint32_t> reader_of(data::Epoch epoch, data::SampleId sample) const;

  // The rank that should hold the sample in an epoch and the others of its block.
  uint32_t home_of(data::Epoch epoch, data::SampleId sample) const;

  // The rank that keeps the sample for its reader in an epoch: its home in the previous epoch if
  // that has read it by then, else the rank that read it in the previous epoch. Nullopt: no rank
  // has read it. If the order is not a permutation: its home, if that has read it before `time`.
  std::optional<uint32_t> keeper_for(data::Epoch epoch, data::SampleId sample, UseTime time) const;

  // When this rank next needs the sample: for its own read or, if ranks share, for any rank's read
  // of a sample that it keeps. Nullopt: not within the horizon, so it need not be held.
  std::optional<UseTime> next_use(data::SampleId sample, UseTime after) const;

  // What a rank should hold in the block of an epoch, at most `count` samples: most often read
  // first, then soonest read first. Iterates over all samples.
  std::vector<data::SampleId> held_by(uint32_t rank, data::Epoch epoch, size_t count) const;

  // The number of samples that this rank reads in an epoch.
  uint64_t reads_in(data::Epoch epoch) const;

 private:
  struct Home {
    uint32_t rank = 0;
    uint32_t read_count = 0;
    UseTime first{};
  };
  Home find_home(uint64_t block, data::SampleId sample) const;
  UseTime time_at(data::Epoch epoch, uint64_t position) const;
  // The rank that reads a position; nullopt: none, because the epoch is past the last one, the
  // position was consumed before the job resumed, or it does not fill a step.
  std::optional<uint32_t> reader_at(data::Epoch epoch, uint64_t position) const;
  std::optional<UseTime> next_drawn_use(data::SampleId sample, UseTime after) const;
  std::optional<uint32_t> keeper_after(data::Epoch epoch, data::SampleId sample,
                                       const Home& home) const;
  uint64_t block_of(data::Epoch epoch) const;
  order::ShareOptions share_in(data::Epoch epoch) const;

  PlacementOptions options_;
  bool is_permutation_;
};

}  // namespace millrace::loader::tiers
