#include "store/pack/lz4.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace millrace::store {
namespace {

// Fixed by the format: the last five bytes are literals, and the last match starts at least twelve
// bytes before the end.
constexpr size_t kMatchMin = 4;
constexpr size_t kLastLiterals = 5;
constexpr size_t kMatchStartMargin = 12;
constexpr size_t kDistanceMax = 65535;
constexpr unsigned kTableBits = 13;  // 32 KiB: fits into the first cache
constexpr unsigned kSkipShift = 6;   // after 64 misses, the search takes larger steps

uint32_t load32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

uint64_t load64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

size_t table_place(uint32_t value) { return (value * 2654435761u) >> (32 - kTableBits); }

size_t match_length(const uint8_t* a, const uint8_t* b, const uint8_t* end) {
  const uint8_t* const begin = a;
  while (a + 8 <= end) {
    const uint64_t difference = load64(a) ^ load64(b);
    if (difference != 0) {
      return static_cast<size_t>(a - begin) + static_cast<size_t>(__builtin_ctzll(difference)) / 8;
    }
    a += 8;
    b += 8;
  }
  while (a < end && *a == *b) ++a, ++b;
  return static_cast<size_t>(a - begin);
}

// Writes sequences of literals and a match.
class SequenceWriter {
 public:
  explicit SequenceWriter(MutableByteView out)
      : begin_(reinterpret_cast<uint8_t*>(out.data())), at_(begin_), end_(begin_ + out.size()) {}

  // False if there is no room. A length of 0 means that there is no match: the last sequence.
  bool put(const uint8_t* literals, size_t count, size_t distance, size_t length) {
    const size_t extra = length == 0 ? 0 : length - kMatchMin;
    const size_t needed = 1 + count / 255 + 1 + count + 2 + extra / 255 + 1;
    if (needed > static_cast<size_t>(end_ - at_)) return false;
    uint8_t* const token = at_++;
    *token = static_cast<uint8_t>(put_length(count) << 4);
    if (count != 0) std::memcpy(at_, literals, count);
    at_ += count;
    if (length == 0) return true;
    *at_++ = static_cast<uint8_t>(distance);
    *at_++ = static_cast<uint8_t>(distance >> 8);
    *token = static_cast<uint8_t>(*token | put_length(extra));
    return true;
  }

  size_t size() const { return static_cast<size_t>(at_ - begin_); }

 private:
  // Returns the four bits for the token, and writes the rest of the length.
  unsigned put_length(size_t length) {
    if (length < 15) return static_cast<unsigned>(length);
    for (length -= 15; length >= 255; length -= 255) *at_++ = 255;
    *at_++ = static_cast<uint8_t>(length);
    return 15;
  }

  uint8_t* begin_;
  uint8_t* at_;
  uint8_t* end_;
};

// False if the input ends before the length does, or the length is over `limit`.
bool take_length(const uint8_t*& at, const uint8_t* end, size_t limit, size_t& length) {
  if (length != 15) return length <= limit;
  uint8_t more = 0;
  do {
    if (at == end || length > limit) return false;
    more = *at++;
    length += more;
  } while (more == 255);
  return length <= limit;
}

void copy_match(uint8_t* out, size_t distance, size_t length, const uint8_t* end) {
  const uint8_t* from = out - distance;
  const auto room = static_cast<size_t>(end - out);
  if (distance >= 16 && room >= length + 16) {
    for (size_t done = 0; done < length; done += 16) std::memcpy(out + done, from + done, 16);
    return;
  }
  if (distance >= 8 && room >= length + 8) {
    for (size_t done = 0; done < length; done += 8) std::memcpy(out + done, from + done, 8);
    return;
  }
  for (size_t i = 0; i < length; ++i) out[i] = from[i];
}

// Most sequences have few literals and a short match that does not overlap itself much. Takes such
// sequences, as long as both ranges have room for copies of fixed lengths, which are fast.
void take_short_sequences(const uint8_t*& at, const uint8_t* end, uint8_t*& to,
                          const uint8_t* begin, const uint8_t* to_end) {
  constexpr std::ptrdiff_t kInRoom = 1 + 16 + 2;
  constexpr std::ptrdiff_t kOutRoom = 16 + 24;
  while (end - at > kInRoom && to_end - to >= kOutRoom) {
    const uint8_t token = *at;
    const size_t count = token >> 4;
    const size_t length = token & 15;
    if (count == 15 || length == 15) return;
    std::memcpy(to, at + 1, 16);
    uint16_t distance = 0;
    std::memcpy(&distance, at + 1 + count, sizeof(distance));
    uint8_t* const match = to + count;
    if (distance < 8 || distance > match - begin) return;
    at += 1 + count + 2;
    std::memcpy(match, match - distance, 8);
    std::memcpy(match + 8, match - distance + 8, 8);
    std::memcpy(match + 16, match - distance + 16, 2);
    to = match + length + kMatchMin;
  }
}

}  // namespace

size_t lz4_compress(ByteView in, MutableByteView out) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(in.data());
  const uint8_t* const end = begin + in.size();
  const uint8_t* anchor = begin;  // everything before it is written
  SequenceWriter writer(out);
  if (in.size() > kMatchStartMargin) {
    std::vector<uint32_t> table(size_t{1} << kTableBits, 0);
    const uint8_t* const last_start = end - kMatchStartMargin;
    size_t misses = 0;
    for (const uint8_t* at = begin + 1; at <= last_start;) {
      uint32_t& place = table[table_place(load32(at))];
      const uint8_t* candidate = begin + place;
      place = static_cast<uint32_t>(at - begin);
      if (static_cast<size_t>(at - candidate) > kDistanceMax || load32(candidate) != load32(at)) {
        at += 1 + (misses++ >> kSkipShift);
        continue;
      }
      while (at > anchor && candidate > begin && at[-1] == candidate[-1]) --at, --candidate;
      const size_t length = match_length(at, candidate, end - kLastLiterals);
      if (length < kMatchMin) {
        ++at;
        continue;
      }
      if (!writer.put(anchor, static_cast<size_t>(at - anchor), static_cast<size_t>(at - candidate),
                      length)) {
        return 0;
      }
      at += length;
      anchor = at;
      misses = 0;
    }
  }
  return writer.put(anchor, static_cast<size_t>(end - anchor), 0, 0) ? writer.size() : 0;
}

bool lz4_decompress(ByteView in, MutableByteView out) {
  const auto* at = reinterpret_cast<const uint8_t*>(in.data());
  const uint8_t* const end = at + in.size();
  auto* const begin = reinterpret_cast<uint8_t*>(out.data());
  uint8_t* to = begin;
  uint8_t* const to_end = begin + out.size();
  while (true) {
    take_short_sequences(at, end, to, begin, to_end);
    if (at >= end) return false;  // the last sequence has no match
    const uint8_t token = *at++;
    size_t count = token >> 4;
    if (!take_length(at, end, static_cast<size_t>(to_end - to), count)) return false;
    if (count > static_cast<size_t>(end - at)) return false;
    if (count <= 16 && end - at >= 16 && to_end - to >= 16) {
      std::memcpy(to, at, 16);  // a fixed length is faster
    } else if (count != 0) {
      std::memcpy(to, at, count);
    }
    at += count;
    to += count;
    if (at == end) return to == to_end;
    if (end - at < 2) return false;
    const size_t distance = static_cast<size_t>(at[0]) | static_cast<size_t>(at[1]) << 8;
    at += 2;
    size_t length = token & 15;
    if (!take_length(at, end, static_cast<size_t>(to_end - to), length)) return false;
    length += kMatchMin;
    if (distance == 0 || distance > static_cast<size_t>(to - begin)) return false;
    if (length > static_cast<size_t>(to_end - to)) return false;
    copy_match(to, distance, length, to_end);
    to += length;
  }
}

}  // namespace millrace::store
