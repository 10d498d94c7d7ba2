// ShardOrders: the order in which each shard visits its slots in an epoch, by keyed permutations.
//
// Shared by local and partial shuffling, which differ in the samples of the slots. Position p
// belongs to shard p % count and is its (p / count)-th turn.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>

#include "base/numbers/permutation.h"
#include "loader/order/kept_permutations.h"
#include "loader/order/order_key.h"
#include "loader/order/shards.h"

namespace millrace::loader::order {

class ShardOrders {
 public:
  ShardOrders(const Shards& shards, uint64_t seed)
      : shards_(shards),
        seed_(seed),
        longer_(shards.even_size() + 1, {}),
        even_(shards.even_size(), {}),
        kept_(shards.count()) {}

  Slot slot_at(data::Epoch epoch, uint64_t position) const {
    const auto shard = static_cast<uint32_t>(position % shards_.count());
    return {.shard = shard, .index = of(epoch, shard).at(position / shards_.count())};
  }

  uint64_t position_of(data::Epoch epoch, Slot slot) const {
    return of(epoch, slot.shard).inverse(slot.index) * shards_.count() + slot.shard;
  }

  // Calls visit(i, slot) for the positions first + i * stride, i below `count`, shard by shard, so
  // that the keys of a shard are derived once. The stride of a rank visits only one shard.
  template <typename Visit>
  void each_slot(data::Epoch epoch, uint64_t first, uint64_t stride, uint64_t count,
                 Visit visit) const {
    const uint64_t cycle = shards_.count() / std::gcd(stride, uint64_t{shards_.count()});
    for (uint64_t start = 0; start < std::min(cycle, count); ++start) {
      const uint64_t position = first + start * stride;
      const auto shard = static_cast<uint32_t>(position % shards_.count());
      const KeyedPermutation order = of(epoch, shard);
      uint64_t turn = position / shards_.count();
      const uint64_t turn_stride = cycle * stride / shards_.count();
      std::array<uint64_t, 64> indices;
      for (uint64_t i = start; i < count;) {
        const auto some = std::span(indices).first(
            std::min<uint64_t>(indices.size(), (count - i - 1) / cycle + 1));
        order.fill(turn, turn_stride, some);
        turn += turn_stride * some.size();
        for (const uint64_t index : some) {
          visit(i, Slot{.shard = shard, .index = index});
          i += cycle;
        }
      }
    }
  }

 private:
  KeyedPermutation of(data::Epoch epoch, uint32_t shard) const {
    const KeyedPermutation& slots = shards_.size_of(shard) == shards_.even_size() ? even_ : longer_;
    return kept_.find(slots, data::number_of(epoch), shard, [&] {
      return slots.with_key(
          order_key({.seed = seed_, .epoch = epoch, .purpose = Purpose::kLocal, .which = shard}));
    });
  }

  Shards shards_;
  uint64_t seed_;
  KeyedPermutation longer_;  // both without a key yet
  KeyedPermutation even_;
  KeptPermutations kept_;
};

}  // namespace millrace::loader::order
