#include "base/hash/siphash.h"

#include <bit>
#include <cstring>

namespace millrace {
namespace {

// The algorithm is little-endian.
static_assert(std::endian::native == std::endian::little);

struct State {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }

  uint64_t squeeze() {
    rounds(4);
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

SipHashTag siphash(const SipHashKey& key, ByteView bytes) {
  uint64_t k[2];
  std::memcpy(k, key.data(), sizeof(k));
  // "somepseudorandomlygeneratedbytes". 0xee, here and below, makes the tag 128 bits long.
  State state = {.v0 = 0x736f6d6570736575 ^ k[0],
                 .v1 = 0x646f72616e646f6d ^ k[1] ^ 0xee,
                 .v2 = 0x6c7967656e657261 ^ k[0],
                 .v3 = 0x7465646279746573 ^ k[1]};
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state.absorb(word);
  }
  for (size_t i = 0; i < bytes.size(); ++i) last |= std::to_integer<uint64_t>(bytes[i]) << 8 * i;
  state.absorb(last);
  state.v2 ^= 0xee;
  uint64_t words[2];
  words[0] = state.squeeze();
  state.v1 ^= 0xdd;
  words[1] = state.squeeze();
  SipHashTag tag;
  std::memcpy(tag.data(), words, sizeof(words));
  return tag;
}

bool is_same_tag(const SipHashTag& left, const SipHashTag& right) {
  volatile uint8_t differences = 0;  // volatile: the loop must not stop at the first
  for (size_t i = 0; i < left.size(); ++i) {
    differences = static_cast<uint8_t>(differences | (left[i] ^ right[i]));
  }
  return differences == 0;
}

}  // namespace millrace
