// SipHash-2-4 with a 128-bit tag: a keyed hash. Without the key, nobody can compute the tag of a
// message, even after seeing the tags of many other messages.
//
// By Aumasson and Bernstein, 2012. Not HMAC-SHA256, which is several times the code: the messages
// are short, and a key lives for one job.
#pragma once

#include <array>
#include <cstdint>

#include "base/base.h"

namespace millrace {

using SipHashKey = std::array<uint8_t, 16>;  // from the random numbers of the system
using SipHashTag = std::array<uint8_t, 16>;

SipHashTag siphash(const SipHashKey& key, ByteView bytes);

// Takes constant time, so that the time does not reveal how much of a guess was right.
bool is_same_tag(const SipHashTag& left, const SipHashTag& right);

}  // namespace millrace
