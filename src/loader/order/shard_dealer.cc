#include "loader/order/shard_dealer.h"

#include <algorithm>

#include "loader/order/modulo.h"
#include "loader/order/order_key.h"

namespace millrace::loader::order {

ShardDealer::ShardDealer(uint32_t shard_count, uint64_t seed)
    : shard_count_(shard_count), prime_(prime_from(shard_count)) {
  const uint64_t prime = prime_.value();
  const uint64_t count = std::min(prime - 1, kFactorCountMax);
  factors_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t factor = i + 1;
    if (count < prime - 1) {
      const OrderName name{.seed = seed, .purpose = Purpose::kDealingFactor, .which = i};
      factor = 1 + below(prime - 1, order_key(name).low);
    }
    factors_.push_back({.forth = static_cast<uint32_t>(factor),
                        .back = static_cast<uint32_t>(inverse_modulo(factor, prime))});
  }
}

}  // namespace millrace::loader::order
