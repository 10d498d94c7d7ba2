// Numbers: compresses a column of 64-bit numbers. docs/formats/trace.md, "Numbers".
//
// Each number is stored as bias + factor * q. The bias is the smallest number, and the factor the
// greatest common factor of the differences. The q are split into planes: all lowest bytes, then
// all second bytes, and so on. A plane is omitted if all its bytes are equal, compressed if that
// saves space, and raw otherwise. Noise then costs little more than its own bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "trace/pack/bytes_out.h"
#include "trace/pack/compression.h"

namespace millrace::trace {

enum class Signedness { kUnsigned, kSigned };

class NumbersEncoder {
 public:
  void encode(std::span<const uint64_t> values, Signedness signedness, BytesOut& out);

  // The size of encode()'s output for the beginning of `values`, to choose between two encodings.
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
