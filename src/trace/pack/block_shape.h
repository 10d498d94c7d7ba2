// Shape: what an event has in common with many others of its block, and how the rest is stored.
//
// Most events of a trace repeat: the same call, on the same file as the event before, with the same
// size as last time, and completely successful. A block therefore lists its shapes once and stores
// one small number per event. Columns hold only values that a shape marks as explicit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/trace_call.h"

namespace millrace::trace {

enum class FileForm : uint8_t {
  kExplicit = 0,
  kAsBefore = 1,    // the file of the previous event of the block
  kAsLastCall = 2,  // the file of the last event with the same call
};
enum class SizeForm : uint8_t {
  kExplicit = 0,
  kAsLastCall = 1,
};
enum class OffsetForm : uint8_t {
  kExplicit = 0,
  kNone = 1,
  kExpected = 2,  // the end of the file's last event
};
enum class ResultForm : uint8_t {
  kExplicit = 0,
  kSize = 1,
  kZero = 2,
  kOffset = 3,
};
enum class OtherForm : uint8_t {
  kExplicit = 0,
  kNone = 1,  // no other file, and kNoOffset
  kZero = 2,  // no other file, and offset 0
};

struct Shape {
  wire::Call call{};
  uint8_t flags = 0;
  FileForm file{};
  SizeForm size{};
  OffsetForm offset{};
  ResultForm result{};
  OtherForm other{};
  uint16_t error = 0;
  uint32_t detail = 0;

  // The forms as stored: two bits each, starting at the lowest.
  uint16_t forms() const {
    return static_cast<uint16_t>(static_cast<unsigned>(file) | static_cast<unsigned>(size) << 2 |
                                 static_cast<unsigned>(offset) << 4 |
                                 static_cast<unsigned>(result) << 6 |
                                 static_cast<unsigned>(other) << 8);
  }

  // False if a form is unknown.
  bool set_forms(uint64_t forms) {
    file = static_cast<FileForm>(forms & 3);
    size = static_cast<SizeForm>(forms >> 2 & 3);
    offset = static_cast<OffsetForm>(forms >> 4 & 3);
    result = static_cast<ResultForm>(forms >> 6 & 3);
    other = static_cast<OtherForm>(forms >> 8 & 3);
    return forms < 1 << 10 && file <= FileForm::kAsLastCall && size <= SizeForm::kAsLastCall &&
           offset <= OffsetForm::kExpected && other <= OtherForm::kZero;
  }
};

// Flags of a block's first byte.
inline constexpr uint8_t kBlockHasDetails = 1;     // details are a column, not part of the shapes
inline constexpr uint8_t kBlockOffsetsDiffer = 2;  // explicit offsets are relative to the expected
                                                   // one
inline constexpr uint8_t kBlockFilesDiffer = 4;    // explicit files are relative to the previous
                                                   // explicit one
inline constexpr uint8_t kBlockHasTags = 8;
inline constexpr uint8_t kBlockFlagsKnown = 15;

// Tables of the last event of each call and file, to predict the next. They have a fixed size and
// are indexed by the low bits, so that reader and writer agree without hashing. A collision only
// makes the prediction worse.
inline constexpr size_t kCallPlaces = 4096;
inline constexpr size_t kFilePlaces = 4096;

constexpr size_t place_of(wire::Call call) { return static_cast<uint16_t>(call) % kCallPlaces; }

}  // namespace millrace::trace
