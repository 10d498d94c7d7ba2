// BlockThreads: holds one value for each thread that has events in a block.
//
// In a recorded block, events of one thread follow each other. In an imported one the thread may
// change with every event. Either way a lookup costs one table access and no hashing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/read/columns.h"

namespace millrace::analyze {

template <typename Value>
class BlockThreads {
 public:
  explicit BlockThreads(const std::vector<trace::ThreadIndex>& threads) {
    if (threads.empty()) return;
    const auto [least, most] = std::minmax_element(threads.begin(), threads.end());
    first_ = static_cast<uint32_t>(*least);
    places_.assign(static_cast<uint32_t>(*most) - first_ + 1, kNone);
  }

  // Creates the value on first use. The reference is valid until the next call.
  Value& of(trace::ThreadIndex thread) {
    uint32_t& place = places_[static_cast<uint32_t>(thread) - first_];
    if (place == kNone) {
      place = static_cast<uint32_t>(values_.size());
      values_.emplace_back();
    }
    return values_[place];
  }

  std::vector<Value>& values() { return values_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t first_ = 0;
  std::vector<uint32_t> places_;  // by thread, starting from the lowest in the block
  std::vector<Value> values_;
};

}  // namespace millrace::analyze
