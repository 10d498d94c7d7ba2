// Order: which sample is at which position of an epoch, for the whole job.
//
// A pure function of its options and the epoch: no cursor, no I/O, no shared state. The prefetcher
// may therefore ask about the future, a restarted job about the past, and any rank about any other.
// Positions belong to the job: of `shard_count` ranks, rank r visits the positions r,
// r + shard_count, ... (share.h). So one order serves any number of ranks, and a job may resume
// with another number.
//
// Every implementation guarantees, and contract_test.cc checks:
//  - equal options give equal answers on every machine and with every compiler;
//  - time does not grow with the epoch number.
// Most orders are permutations: in every epoch, `at` is a permutation of [0, sample_count), and
// `position_of` is its inverse. Their memory does not grow with the number of samples. The others
// (weighted, mixture, listed) draw: a sample may come several times or never, and the number of
// positions of an epoch is an option (drawing.h). They keep tables.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/sample.h"
#include "loader/order/drawing.h"

namespace millrace::loader::order {

enum class Shuffle : uint8_t {
  kOff,      // sample i is at position i
  kGlobal,   // any sample may be at any position
  kLocal,    // each shard keeps its samples and shuffles them
  kPartial,  // local, and after every epoch a fraction of each shard moves to other shards
  kFile,     // files (groups) are shuffled; samples stay in order within them
  // These are not permutations:
  kWeighted,  // samples are drawn with weights
  kMixture,   // a fixed number of samples of each part of the dataset
  kListed,    // the program gives a list for each epoch
};

constexpr bool is_permutation(Shuffle shuffle) { return shuffle < Shuffle::kWeighted; }

Result<Shuffle> shuffle_from(std::string_view name);  // "global", ...; the error lists all names
std::string_view shuffle_name(Shuffle shuffle);

struct Options {
  Shuffle shuffle = Shuffle::kGlobal;
  uint64_t sample_count = 0;
  uint64_t seed = 0;
  uint32_t shard_count = 1;  // local, partial: the number of ranks that hold the samples
  double fraction = 0;       // partial: Q, in [0, 1]
  // kFile: where groups begin, and one past the last sample; from the source.
  std::vector<uint64_t> group_begins;
  // weighted, mixture, listed: the positions of an epoch. A permutation has one per sample.
  uint64_t position_count = 0;
  std::shared_ptr<const Drawing> drawing;  // likewise; shared by copies of the options
};

inline uint64_t position_count(const Options& options) {
  return is_permutation(options.shuffle) ? options.sample_count : options.position_count;
}

class Order {
 public:
  virtual ~Order() = default;

  virtual const Options& options() const = 0;
  uint64_t sample_count() const { return options().sample_count; }
  uint64_t size() const { return position_count(options()); }  // the positions of an epoch
  bool is_permutation() const { return order::is_permutation(options().shuffle); }

  // Whether the epoch's order can be asked for: a listed order is unknown until its list is given.
  virtual bool knows(data::Epoch epoch) const { return static_cast<void>(epoch), true; }

  // REQUIRES: position < size(), knows(epoch)
  virtual data::SampleId at(data::Epoch epoch, uint64_t position) const = 0;

  // The first position of the sample; size() if it does not occur in the epoch.
  // REQUIRES: the sample is below sample_count()
  virtual uint64_t position_of(data::Epoch epoch, data::SampleId sample) const = 0;
  // The first position of the sample at or after `begin`, and the last one before `end`; nullopt if
  // there is none, or if the epoch is not known. REQUIRES: likewise
  virtual std::optional<uint64_t> first_at(data::Epoch epoch, data::SampleId sample,
                                           uint64_t begin) const;
  virtual std::optional<uint64_t> last_before(data::Epoch epoch, data::SampleId sample,
                                              uint64_t end) const;
  // How many epochs ahead it is cheap to look for the positions of samples.
  virtual uint32_t horizon_max() const { return UINT32_MAX; }

  // A fingerprint of the weights, of the parts or of the epoch's list, so that a job does not
  // resume with others. Nullopt: the other options determine the order, or the epoch is not known.
  virtual std::optional<uint32_t> drawn_from(data::Epoch epoch) const {
    return static_cast<void>(epoch), std::nullopt;
  }

  // at() for first, first + stride, ...: a batch of a rank. REQUIRES: all below size()
  virtual void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
                    std::span<data::SampleId> out) const;
};

// Fails if an option is invalid. Does not check group_begins and drawing.
Status check_order(const Options& options);

// Fails likewise, and checks group_begins and drawing.
Result<std::unique_ptr<Order>> make_order(const Options& options);

}  // namespace millrace::loader::order
