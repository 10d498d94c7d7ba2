// Placement: when samples are read in the coming epochs, by whom, and who is told to hold them.
//
// Pure functions of the order and the world: every rank knows what every rank was told, with no
// communication. NoPFS' rule says who: a sample's home is the rank that reads it most often within
// a block of epochs, since there most of its reads are local; of equals, the one that reads it
// first. Until its home has read it, the last rank that did keeps it for the next, so that a sample
// comes from the source once and not once a rank. The next use says what is worth keeping
// (hold_set.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/sample.h"
#include "loader/order/order.h"
#include "loader/order/share.h"

namespace millrace::loader {

// A place in all epochs: epoch * samples + position.
enum class UseTime : uint64_t {};

struct PlacementOptions {
  std::shared_ptr<const Order> order;  // shared with the loader
  World world;
  uint64_t batch_size = 1;
  Tail tail = Tail::kUneven;
  uint32_t horizon_epochs = 8;  // how far ahead is looked; also the length of a block
  uint64_t epoch_limit =
      ~uint64_t{0};     // epochs of the whole run, where known: later reads are none
  bool shares = false;  // others ask this rank for what it holds
  // The epoch that was begun in the middle, and where: its ranks take turns from there.
  data::Epoch resumed_epoch{};
  uint64_t resumed_done = 0;
};

class Placement {
 public:
  // REQUIRES: an order of at least one sample, horizon_epochs > 0.
  explicit Placement(PlacementOptions options);

  const PlacementOptions& options() const { return options_; }
  UseTime time_of(data::Epoch epoch, data::SampleId sample) const;

  // Who reads the sample in an epoch; nobody where it is left out of it.
  std::optional<uint32_t> reader_of(data::Epoch epoch, data::SampleId sample) const;

  // The rank that is told to hold the sample in an epoch and the others of its block.
  uint32_t home_of(data::Epoch epoch, data::SampleId sample) const;

  // The rank that keeps the sample for its reader in an epoch: its home of the epoch before, if
  // that has read it by then, else the one that read it in the epoch before. Nothing: nobody has
  // read it.
  std::optional<uint32_t> keeper_for(data::Epoch epoch, data::SampleId sample) const;

  // When this rank next needs what it holds: for a read of its own, or, where ranks share, for
  // anybody's read of a sample that it keeps. Nothing within the horizon: it need not be held.
  std::optional<UseTime> next_use(data::SampleId sample, UseTime after) const;

  // What a rank is told to hold in the block of an epoch: most often read first, of equals the
  // soonest read first, at most `count`. Goes over all samples.
  std::vector<data::SampleId> held_by(uint32_t rank, data::Epoch epoch, size_t count) const;

  // How many samples this rank reads in an epoch.
  uint64_t reads_in(data::Epoch epoch) const;

 private:
  struct Home {
    uint32_t rank = 0;
    uint32_t read_count = 0;
    UseTime first{};
  };
  Home find_home(uint64_t block, data::SampleId sample) const;
  std::optional<uint32_t> keeper_after(data::Epoch epoch, data::SampleId sample,
                                       const Home& home) const;
  uint64_t block_of(data::Epoch epoch) const;
  ShareOptions share_in(data::Epoch epoch) const;

  PlacementOptions options_;
};

}  // namespace millrace::loader
