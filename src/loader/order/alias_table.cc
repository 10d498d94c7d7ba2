#include "loader/order/alias_table.h"

#include <numeric>

namespace millrace::loader::order {

AliasTable::AliasTable(std::span<const uint64_t> weights)
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
