// Order: which sample is at which position of an epoch, for the whole job.
//
// A pure function of its options and the epoch: no cursor, no I/O, no shared state. The prefetcher
// may therefore ask about the future, a restarted job about the past, and any rank about any other.
// Positions belong to the job: of `shard_count` ranks, rank r visits the positions r,
// r + shard_count, ... (share.h). So one order serves any number of ranks, and a job may resume
// with another number.
//
// Every implementation guarantees, and contract_test.cc checks:
//  - in every epoch, `at` is a permutation of [0, size) and `position_of` is its inverse;
//  - equal options give equal answers on every machine and with every compiler;
//  - memory does not grow with the number of samples, nor time with the epoch number.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/sample.h"

namespace millrace::loader::order {

enum class Shuffle : uint8_t {
  kOff,      // sample i is at position i
  kGlobal,   // any sample may be at any position
  kLocal,    // each shard keeps its samples and shuffles them
  kPartial,  // local, and after every epoch a fraction of each shard moves to other shards
  kFile,     // files (groups) are shuffled; samples stay in order within them
};

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
};

class Order {
 public:
  virtual ~Order() = default;

  virtual const Options& options() const = 0;
  uint64_t size() const { return options().sample_count; }

  // REQUIRES: position < size()
  virtual data::SampleId at(data::Epoch epoch, uint64_t position) const = 0;
  // REQUIRES: the sample is below size()
  virtual uint64_t position_of(data::Epoch epoch, data::SampleId sample) const = 0;

  // at() for first, first + stride, ...: a batch of a rank. REQUIRES: all below size()
  virtual void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
                    std::span<data::SampleId> out) const;
};

// Fails if an option is invalid. Does not check group_begins.
Status check_order(const Options& options);

// Fails likewise, and checks group_begins.
Result<std::unique_ptr<Order>> make_order(const Options& options);

}  // namespace millrace::loader::order
