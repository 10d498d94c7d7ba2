// QuantileSketch: the quantiles of any number of whole numbers, in little memory, to a stated
// error.
//
// Values wait on level 0. A level with kLevelValues values is sorted, and every second value moves
// up, where it stands for twice as many; the others are dropped. Level h thus holds values of
// weight 2^h. Whether the first or the second of each pair moves up alternates, so that errors
// cancel. Not t-digest, whose error has no proof, and not random coins: equal input gives equal
// answers.
//
// The error, for n values in all, however they were added and merged: the rank of an answer is off
// by at most L * n / kLevelValues, where L = floor(log2(n / kLevelValues)) + 1 is the number of
// levels that may have overflowed; below kLevelValues values the answers are exact. That is 0.44 %
// of n for 2^29 values, and below 1 % for less than 2^52. Proof: each compaction of level h moves
// the rank of anything by at most 2^h and consumes at least kLevelValues * 2^h of the weight n, so
// that no level adds more than n / kLevelValues. docs/design/statistics.md has it in full.
//
// Memory: 8 bytes a value while there are few, at most L * 32 KiB later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace millrace {

class QuantileSketch {
 public:
  static constexpr size_t kLevelValues = 4096;  // even, so that a full level leaves nothing behind

  void add(uint64_t value) {
    if (levels_.empty()) levels_.resize(1);
    note(value);
    levels_[0].values.push_back(value);
    if (levels_[0].values.size() == kLevelValues) compact_from(0);
  }
  void add_all(std::span<const uint64_t> values);
  void merge(const QuantileSketch& other);

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }  // exact; 0 of nothing
  uint64_t max() const { return max_; }                    // exact; 0 of nothing

  // The value at the rank ceil(q * count): the least with that share of the values at or below it.
  // 0 gives min(), 1 gives max(), and of nothing all are 0. REQUIRES: 0 <= q <= 1.
  uint64_t quantile(double q) const;

  // The same for several at once, in any order, in one pass.
  std::vector<uint64_t> quantiles(std::span<const double> qs) const;

  // What quantile() may be off by, as a share of the count: the bound above, for this sketch.
  double rank_error_bound() const;

  // Appends the sketch in bytes that load() takes. docs/design/statistics.md has the layout.
  void save(std::vector<std::byte>& out) const;
  static Result<QuantileSketch> load(ByteReader& in);

 private:
  struct Level {
    std::vector<uint64_t> values;  // sorted, but for level 0
    int64_t balance = 0;           // compactions that rounded ranks up, less those that did down
  };

  void note(uint64_t value) {
    ++count_;
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }
  void compact_from(size_t height);
  void compact(size_t height);

  std::vector<Level> levels_;
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace millrace
