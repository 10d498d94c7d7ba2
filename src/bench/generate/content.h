// Content: the bytes of generated samples, as a function of (seed, split, file, sample, field).
//
// Any part of any sample can be computed by itself, so nothing needs to be stored to verify a
// sample, and a file of any size is written from a small buffer. Equal arguments give equal bytes
// on every machine: there is no floating-point arithmetic that could be rounded differently.
//
//   random   independent numbers: bytes and integers of all values, floats in [0, 1). Does not
//            compress (above 10 GB/s per core)
//   photo    smooth areas, detail and a little noise: compresses like a photograph
//   physics  smooth fields of floats with noise in the last bits: compresses like simulation data
//   text     words of lower-case letters; only for bytes
//   zero     zeros; file systems may not store them at all
//
// Stateless and thread-safe.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "bench/generate/layout.h"
#include "bench/workload/workload.h"
#include "data/array.h"

namespace millrace::bench {

// Changes if equal arguments give other bytes than before.
inline constexpr uint32_t kContentVersion = 2;

// The array that is filled.
struct ContentArray {
  SampleRef sample;
  uint64_t field = 0;  // 0: the record; other arrays of the sample have other numbers
  data::ElementType type = data::ElementType::kU8;
  data::Shape shape;
  bool is_text = false;  // always words, whatever dataset.content says

  uint64_t size_bytes() const { return shape.element_count() * data::element_bytes(type); }
};

class Content {
 public:
  // Parts of an array begin at multiples of this.
  static constexpr uint64_t kAlignment = 64;

  explicit Content(const DatasetConfig& dataset) : kind_(dataset.content), seed_(dataset.seed) {}

  // Fills `out` with the bytes of the array from `offset_bytes` on.
  // REQUIRES: `offset_bytes` is a multiple of kAlignment, and out.size() one of the element.
  void fill(const ContentArray& array, uint64_t offset_bytes, MutableByteView out) const;

  // The key of its random numbers.
  uint64_t key_of(const ContentArray& array) const;

 private:
  ContentKind kind_;
  uint64_t seed_;
};

// A random number: number `index` of those that `key` stands for. One 64-by-64-bit multiplication,
// as in the generator wyrand. Not Philox, which is five times slower; not splitmix64, which needs
// two multiplications.
inline uint64_t random_word(uint64_t key, uint64_t index) {
  __extension__ using uint128 = unsigned __int128;
  const uint64_t state = key + index * 0xa0761d6478bd642f;
  const uint128 product = static_cast<uint128>(state) * (state ^ 0xe7037ed1a0b428db);
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
}

// The record of a sample.
ContentArray record_of(const Layout& layout, const SampleRef& sample);

}  // namespace millrace::bench
