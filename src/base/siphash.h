// SipHash-2-4 with a tag of 128 bits: a keyed hash. Whoever does not know the key cannot make the
// tag of a message, however many tags of other messages have been seen.
//
// By Aumasson and Bernstein, 2012. Not HMAC-SHA256: that is several times the code, and
// the messages are short and the keys live for one job.
#pragma once

#include <array>
#include <cstdint>

#include "base/base.h"

namespace millrace {

using SipHashKey = std::array<uint8_t, 16>;  // from the system's random numbers
using SipHashTag = std::array<uint8_t, 16>;

SipHashTag siphash(const SipHashKey& key, ByteView bytes);

// Takes equally long wherever the tags differ, so that the time does not tell how much of a guess
// was right.
bool is_same_tag(const SipHashTag& left, const SipHashTag& right);

}  // namespace millrace
