// AliasTable: draws numbers with given weights in constant time (Walker, 1977; Vose, 1991).
//
// A column per number, all of one height. The column of a number holds that number up to a bound,
// and one other number above it. A draw chooses a column and a height. Built from whole numbers, so
// that equal weights give equal tables on every machine. Immutable.
#pragma once

#include <cstdint>
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

}  // namespace millrace::loader::order
