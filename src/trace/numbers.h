// Numbers: a column of 64-bit numbers as few bytes. docs/formats/trace.md, "Numbers".
//
// Each number is written as bias + factor * q, with the least number as bias and the greatest
// common factor of the rest; the q are cut into planes, all lowest bytes first, then all second
// bytes, and so on, and each plane is left out where it is one byte throughout, compressed where
// that gains, and raw otherwise. Noise then costs its own bits and little more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "trace/bytes_out.h"
#include "trace/compression.h"

namespace millrace::trace {

enum class Signedness { kUnsigned, kSigned };

class NumbersEncoder {
 public:
  void encode(std::span<const uint64_t> values, Signedness signedness, BytesOut& out);

  // What encode() would take for the beginning of `values`, to choose between two ways to write
  // them.
  size_t estimate(std::span<const uint64_t> values, Signedness signedness);

 private:
  void encode_planes(uint64_t factor, unsigned width, BytesOut& out);

  Compressor compressor_;
  std::vector<uint64_t> work_;
  std::vector<std::byte> plane_;
  BytesOut trial_;
};

class NumbersDecoder {
 public:
  // Fills all of `values`, or fails.
  Status decode(ByteReader& in, std::span<uint64_t> values);

 private:
  Status read_plane(ByteReader& in, MutableByteView plane);

  Decompressor decompressor_;
  std::vector<std::byte> planes_;
};

}  // namespace millrace::trace
