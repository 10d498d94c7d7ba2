// Arithmetic modulo a number, in whole numbers, so that orders are the same everywhere.
#pragma once

#include <cstdint>

namespace millrace::loader {

// The least prime that is not below `least`. By trial: microseconds for numbers of shards.
uint64_t prime_from(uint64_t least);

// factor * (result) is 1 modulo the modulus. REQUIRES: they have no common divisor
uint64_t inverse_modulo(uint64_t factor, uint64_t modulus);

// A step through [0, count) that meets every number, and by which the numbers of any few steps in a
// row are spread evenly: near the golden section of `count`, and small enough that a product with a
// number below `count` and one more of these fit into 64 bits. REQUIRES: count > 0
uint64_t even_step(uint64_t count);

}  // namespace millrace::loader
