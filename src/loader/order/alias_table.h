// AliasTable: draws numbers with given weights in constant time (Walker, 1977; Vose, 1991).
//
// A column per number, all of one height. The column of a number holds that number up to a bound,
// and one other number above it. A draw chooses a column and a height. Built from whole numbers, so
// that equal weights give equal tables on every machine. Immutable.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/numbers/permutation.h"

namespace millrace::loader::order {

class AliasTable {
 public:
  AliasTable() = default;
  // REQUIRES: whole_weights() of drawing.h
  explicit AliasTable(std::span<const uint64_t> weights);

  // A hint that draw() will be called with this first number. Most draws of a large table miss the
  // caches, and many misses at once take as long as one.
  void prefetch(uint64_t first) const {
    __builtin_prefetch(&columns_[PermutationNetwork::high_product(first, columns_.size())]);
  }

  // The number that two uniform 64-bit numbers draw. REQUIRES: there are weights
  uint64_t draw(uint64_t first, uint64_t second) const {
    const uint64_t number = PermutationNetwork::high_product(first, columns_.size());
    const Column& column = columns_[number];
    return PermutationNetwork::high_product(second, height_) < column.bound ? number : column.other;
  }

 private:
  struct Column {
    uint64_t bound = 0;  // up to height_
    uint64_t other = 0;
  };

  uint64_t height_ = 0;  // the sum of the weights
  std::vector<Column> columns_;
};

inline AliasTable::AliasTable(std::span<const uint64_t> weights)
    : height_(std::accumulate(weights.begin(), weights.end(), uint64_t{0})),
      columns_(weights.size()) {
  // What is left of each number, in units in which all columns together hold everything.
  std::vector<uint64_t> left;
  left.reserve(weights.size());
  for (const uint64_t weight : weights) left.push_back(weight * weights.size());
  std::vector<uint64_t> low;   // numbers that do not fill a column
  std::vector<uint64_t> high;  // the others
  for (uint64_t i = left.size(); i-- > 0;) (left[i] < height_ ? low : high).push_back(i);
  while (!low.empty()) {
    const uint64_t number = low.back();
    const uint64_t other = high.back();  // not empty: the mean of what is left is the height
    low.pop_back();
    columns_[number] = {.bound = left[number], .other = other};
    left[other] -= height_ - left[number];
    if (left[other] < height_) {
      high.pop_back();
      low.push_back(other);
    }
  }
  for (const uint64_t number : high) columns_[number] = {.bound = height_, .other = number};
}

}  // namespace millrace::loader::order
