#include "loader/order/modulo.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace millrace::loader::order {
namespace {

__extension__ using uint128 = unsigned __int128;

bool is_prime(uint64_t number) {
  for (uint64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

}  // namespace

uint64_t prime_from(uint64_t least) {
  while (!is_prime(least)) ++least;
  return least;
}

uint64_t inverse_modulo(uint64_t factor, uint64_t modulus) {
  // Extended Euclidean algorithm. Invariant: rest == share * factor, modulo the modulus.
  uint64_t rest = factor % modulus;
  uint64_t rest_before = modulus;
  uint64_t share = 1 % modulus;
  uint64_t share_before = 0;
  while (rest > 1) {
    const uint64_t times = rest_before / rest;
    const auto taken = static_cast<uint64_t>(uint128{times} * share % modulus);
    rest_before = std::exchange(rest, rest_before - times * rest);
    const uint64_t left =
        share_before >= taken ? share_before - taken : share_before + (modulus - taken);
    share_before = std::exchange(share, left);
  }
  return share;
}

uint64_t even_step(uint64_t count) {
  const auto golden = static_cast<uint64_t>((uint128{count} * 0x9e3779b97f4a7c15) >> 64);
  uint64_t step = std::max<uint64_t>(std::min(golden, ~uint64_t{0} / count - 1), 1);
  while (std::gcd(step, count) != 1) --step;
  return step;
}

}  // namespace millrace::loader::order
