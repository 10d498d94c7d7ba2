// CheckpointContent: the bytes of a tensor in a checkpoint, as a function of its seed.
//
// Either random, such that no two pages of any tensors are equal and nothing can be compressed or
// deduplicated; or all elements one, as DLIO does without randomize_tensor. Any part can be filled
// in at any time, at the speed of memory, and the checksum of gigabytes follows from the seed
// without making them: a page is a page of a small pool, XORed with its own 64-bit key, and a CRC
// is linear in both. So a file can be written in one pass with its checksum in front, and a reader
// can compare every byte. docs/design/bench-checkpoints.md explains it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/base.h"
#include "data/array.h"

namespace millrace::bench {

enum class ChecksumKind : uint8_t {
  kZip,         // CRC-32, of zip files
  kCastagnoli,  // CRC-32C, of TensorFlow
};

class CheckpointContent {
 public:
  static CheckpointContent random(uint64_t seed);
  static CheckpointContent ones(data::ElementType type);

  // Fills `out` with the bytes from `offset_bytes` on.
  void fill(uint64_t offset_bytes, MutableByteView out) const;

  // The index of the first byte of `found` that is not the one at `offset_bytes` and on;
  // found.size() if there is none.
  size_t find_difference(uint64_t offset_bytes, ByteView found) const;

  // The checksum of the first `size_bytes`.
  uint32_t checksum(ChecksumKind kind, uint64_t size_bytes) const;

 private:
  CheckpointContent(bool is_random, uint64_t value) : is_random_(is_random), value_(value) {}

  uint64_t key_of(uint64_t page) const;
  void fill_page(uint64_t page, MutableByteView out) const;
  bool is_page(uint64_t page, ByteView found) const;

  bool is_random_;
  uint64_t value_;  // the seed, or eight bytes of ones
};

// A seed for the tensor `index` of a file; the same on every machine.
uint64_t content_seed(std::string_view checkpoint, std::string_view file, uint64_t index);

}  // namespace millrace::bench
