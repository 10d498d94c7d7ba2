// Drawing: what an order draws from that is not a permutation of the samples.
//
// Such an order may draw a sample several times or never, and the number of positions of an epoch
// is an option. Options::shuffle says which of these is used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "data/sample.h"

namespace millrace::loader::order {

// kMixture: parts of the dataset, and how much of an epoch is from each.
struct Mixture {
  std::vector<double> proportions;    // of each part; only their ratios count
  std::vector<uint64_t> part_begins;  // of each part, and the end of the last
  // What part_begins refers to: samples, each part after the other. Empty: the samples themselves,
  // so that parts are runs of samples.
  std::vector<uint64_t> members;

  uint64_t part_count() const { return proportions.size(); }
};

// kListed: the order of each epoch as a list, given by the program before the epoch starts.
//
// The last few lists are kept: of the current epoch, of the next one for the prefetcher, and of the
// one before for reads in progress. Thread-safe.
class EpochLists {
 public:
  using List = std::vector<uint64_t>;
  static constexpr size_t kKeptCount = 4;

  EpochLists(uint64_t sample_count, uint64_t position_count)
      : sample_count_(sample_count), position_count_(position_count) {}

  uint64_t sample_count() const { return sample_count_; }
  uint64_t position_count() const { return position_count_; }

  // Fails if the list has another length than position_count, or a number that is not below
  // sample_count. Numbers are signed because programs count from the end by mistake.
  Status put(data::Epoch epoch, std::span<const int64_t> samples);

  // Null: not given, or no longer kept.
  std::shared_ptr<const List> find(data::Epoch epoch) const;

 private:
  struct Kept {
    data::Epoch epoch{};
    std::shared_ptr<const List> list;  // shared with those who read it; null: none
  };

  uint64_t sample_count_;
  uint64_t position_count_;
  mutable Mutex mutex_;
  std::array<Kept, kKeptCount> kept_ GUARDED_BY(mutex_);  // the latest first
};

struct Drawing {
  std::vector<double> weights;        // kWeighted: of each sample; empty: all equal
  bool replaces = true;               // kWeighted: a sample may be drawn again in the same epoch
  Mixture mixture;                    // kMixture
  std::shared_ptr<EpochLists> lists;  // kListed; shared with the program, which adds to it
};

struct Options;

// Fails if the drawing that options.shuffle needs is missing or invalid.
Status check_drawing(const Options& options);

// Whole numbers in the ratio of the weights, for arithmetic that is exact on every machine. Their
// sum is below 2^62, and so is the largest times their count. A positive weight stays positive.
// REQUIRES: check_weights()
std::vector<uint64_t> whole_weights(std::span<const double> weights);

// Fails unless all weights are finite and not negative, and one is positive. `what` names them.
Status check_weights(std::span<const double> weights, std::string_view what);

// How many of `count` positions each part gets: in the ratio of the proportions, rounded so that
// the sum is `count` (largest remainder; among equals, the first). REQUIRES: check_weights()
std::vector<uint64_t> apportioned(std::span<const double> proportions, uint64_t count);

}  // namespace millrace::loader::order
