// Modular arithmetic in integers, so that orders are the same everywhere.
#pragma once

#include <cstdint>

namespace millrace::loader::order {

// The smallest prime that is not below `least`. Trial division: microseconds for any number of
// shards.
uint64_t prime_from(uint64_t least);

// factor * (result) is 1 modulo the modulus. REQUIRES: factor and modulus are coprime
uint64_t inverse_modulo(uint64_t factor, uint64_t modulus);

// A step that visits every number of [0, count) and spreads any few consecutive ones evenly. It is
// close to the golden section of `count`, and so small that (a number below `count`) * step + step
// fits into 64 bits. REQUIRES: count > 0
uint64_t even_step(uint64_t count);

}  // namespace millrace::loader::order
