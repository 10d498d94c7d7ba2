// PermutationLanes by vector instructions, written once for all of them.
//
// For permutation_avx2.cc and permutation_avx512.cc alone, which define before it, in an unnamed
// namespace, the struct Numbers and the functions on it that are used here. Each is compiled with
// the flags of its instructions: nothing here may be an inline function that other files have as
// well, of which the linker would keep one, perhaps for a processor that this one is not.
//
// What is multiplied are the lower 32 bits of a number of 64, by one instruction; upper halves that
// nothing reads hold anything. Not whole products of 64 bits, which AVX2 has not, and which AVX-512
// makes of three such multiplications itself.
#pragma once

namespace millrace {
namespace {

constexpr size_t kRounds = PermutationNetwork::kRounds;

// The upper 64 bits of a product of 64 bits each.
MILLRACE_WIDE Numbers high_product(const Numbers& a, const Numbers& b) {
  const Numbers a_upper = upper(a);
  const Numbers b_upper = upper(b);
  const Numbers middle = sum(product(a_upper, b), upper(product(a, b)));
  const Numbers other = sum(product(a, b_upper), both(middle, all(0xffffffff)));
  return sum(sum(product(a_upper, b_upper), upper(middle)), upper(other));
}

// The keys of the rounds, and what their upper halves add to the upper half of the first product of
// the hash.
struct WideKeys {
  Numbers key[kRounds];
  Numbers upper_part[kRounds];
};

// PermutationNetwork::hash, by halves of 32 bits.
MILLRACE_WIDE Numbers hash(const Numbers& half, const WideKeys& keys, size_t round,
                           const Numbers& bound) {
  const Numbers keyed = exclusive(half, keys.key[round]);
  const Numbers first = product(keyed, all(PermutationNetwork::kFirstFactor));
  const Numbers crossed = product(keyed, all(PermutationNetwork::kFirstFactor >> 32));
  const Numbers first_upper = sum(sum(upper(first), crossed), keys.upper_part[round]);
  const Numbers mixed = exclusive(first, first_upper);  // the lower half of z ^ z >> 32
  const Numbers factor = all(PermutationNetwork::kSecondFactor);
  const Numbers second = product(mixed, factor);
  const Numbers second_crossed = sum(product(mixed, all(PermutationNetwork::kSecondFactor >> 32)),
                                     product(first_upper, factor));
  const Numbers second_upper = sum(upper(second), second_crossed);
  return upper(sum(product(second_upper, bound), upper(product(second, bound))));
}

// Modulo the bound, in 32 bits: of a number and that less the bound, one is below the bound, and
// the other is not, or has gone round below 0.
MILLRACE_WIDE Numbers add(const Numbers& half, const Numbers& step, const Numbers& bound) {
  const Numbers total = sum32(half, step);
  return least32(total, difference32(total, bound));
}

struct WideNetwork {
  Numbers left_size;
  Numbers right_size;
  Numbers right_reciprocal;
};

struct WideHalves {
  Numbers left;
  Numbers right;
};

MILLRACE_WIDE WideHalves split(const WideNetwork& network, const Numbers& number) {
  const Numbers left = high_product(number, network.right_reciprocal);
  const Numbers right = difference(number, product(left, network.right_size));
  const Numbers is_one_less = is_above(right, difference(network.right_size, all(1)));  // all ones
  return {difference(left, is_one_less), difference(right, both(is_one_less, network.right_size))};
}

MILLRACE_WIDE Numbers join(const WideNetwork& network, const Numbers& left, const Numbers& right) {
  return sum(product(left, network.right_size), right);
}

MILLRACE_WIDE Numbers pass(const WideNetwork& network, const WideKeys& keys,
                           const Numbers& number) {
  WideHalves halves = split(network, number);
  for (size_t round = 0; round < kRounds; round += 2) {
    halves.left =
        add(halves.left, hash(halves.right, keys, round, network.left_size), network.left_size);
    halves.right = add(halves.right, hash(halves.left, keys, round + 1, network.right_size),
                       network.right_size);
  }
  return join(network, halves.left, halves.right);
}

// The last ones of an array are made as many as the others by zeros.
struct Padded {
  uint64_t values[Numbers::kCount] = {};

  MILLRACE_WIDE void take(const uint64_t* from, size_t count) {
    for (size_t i = 0; i < count; ++i) values[i] = from[i];
  }
  MILLRACE_WIDE void give(uint64_t* to, size_t count) const {
    for (size_t i = 0; i < count; ++i) to[i] = values[i];
  }
};

void send_some(const WideNetwork& network, const WideKeys& keys, uint64_t last, uint64_t* numbers) {
  Numbers sent = pass(network, keys, load(numbers));
  for (;;) {
    const Numbers is_outside = is_above(sent, all(last));
    if (is_nothing(is_outside)) break;
    sent = chosen(is_outside, pass(network, keys, sent), sent);
  }
  store(numbers, sent);
}

void at_each(const PermutationNetwork& network, const uint64_t* keys, uint64_t* numbers,
             size_t count) {
  const WideNetwork wide{all(network.left_size), all(network.right_size),
                         all(network.right_reciprocal)};
  WideKeys wide_keys;
  for (size_t round = 0; round < kRounds; ++round) {
    wide_keys.key[round] = all(keys[round]);
    wide_keys.upper_part[round] =
        product(upper(wide_keys.key[round]), all(PermutationNetwork::kFirstFactor));
  }
  for (size_t i = 0; i < count; i += Numbers::kCount) {
    const size_t here = count - i < Numbers::kCount ? count - i : Numbers::kCount;
    if (here == Numbers::kCount) {
      send_some(wide, wide_keys, network.size - 1, numbers + i);
    } else {
      Padded few;
      few.take(numbers + i, here);
      send_some(wide, wide_keys, network.size - 1, few.values);
      few.give(numbers + i, here);
    }
  }
}

MILLRACE_WIDE void philox_some(uint64_t key, uint64_t* first, uint64_t* second) {
  Numbers words[4] = {load(first), upper(load(first)), load(second), upper(load(second))};
  uint64_t left_key = key;
  uint64_t right_key = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const Numbers left = product(all(0xD2511F53), words[0]);
    const Numbers right = product(all(0xCD9E8D57), words[2]);
    words[0] = exclusive(exclusive(upper(right), words[1]), all(left_key));
    words[2] = exclusive(exclusive(upper(left), words[3]), all(right_key));
    words[1] = right;
    words[3] = left;
    left_key += 0x9E3779B9;
    right_key += 0xBB67AE85;
  }
  const Numbers lower = all(0xffffffff);
  store(first, sum(both(words[0], lower), moved_up<32>(words[1])));
  store(second, sum(both(words[2], lower), moved_up<32>(words[3])));
}

void philox_each(uint64_t key, uint64_t* first, uint64_t* second, size_t count) {
  for (size_t i = 0; i < count; i += Numbers::kCount) {
    if (count - i >= Numbers::kCount) {
      philox_some(key, first + i, second + i);
      continue;
    }
    Padded few_first;
    Padded few_second;
    few_first.take(first + i, count - i);
    few_second.take(second + i, count - i);
    philox_some(key, few_first.values, few_second.values);
    few_first.give(first + i, count - i);
    few_second.give(second + i, count - i);
  }
}

constexpr PermutationLanes kWideLanes{.at_each = &at_each, .philox_each = &philox_each};

}  // namespace
}  // namespace millrace
