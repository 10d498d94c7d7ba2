// hybrid: Parquet's run-length and bit-packed coding of small numbers: levels and indexes into a
// dictionary.
//
// A stream is a sequence of runs. A run is one number that repeats, or groups of eight numbers with
// a fixed number of bits each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format::parquet {

// The bits that numbers up to `max` need.
int bits_for(uint64_t max);

// Fills `out`. Fails if the stream is too short or `bits` is over 32. Bytes after it are ignored.
Status decode_hybrid(ByteView stream, int bits, std::span<uint32_t> out);

// Fills `out`, of numbers up to 255. If all of them are equal, only the first one may be written;
// returns whether that is so.
Result<bool> decode_levels(ByteView stream, int bits, std::span<uint8_t> out);

class HybridEncoder {
 public:
  // REQUIRES: 0 < bits <= 32
  HybridEncoder(int bits, std::string& out) : bits_(bits), out_(out) {}

  void add(uint32_t value, uint64_t count = 1);
  // REQUIRES: called once, at the end.
  void finish();

 private:
  void put_repeated(uint32_t value, uint64_t count);
  void put_group();
  void end_packed();

  int bits_;
  std::string& out_;
  uint32_t group_[8] = {};
  size_t group_count_ = 0;
  std::string packed_;  // the groups of the open bit-packed run
};

}  // namespace millrace::format::parquet
