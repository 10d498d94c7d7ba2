// BlockCodec: the events of one block to bytes and back. docs/formats/trace.md, "Events".
//
// Encoders and decoders keep their working memory from block to block; each thread has its own. The
// bytes are whatever a file held: decoding checks every count and length before it is used, and
// never holds more than a block of kTraceBlockEventsMax events may have.
#pragma once

#include <memory>

#include "base/base.h"
#include "base/result.h"
#include "trace/bytes_out.h"
#include "trace/columns.h"
#include "wire/trace_call.h"

namespace millrace::trace {

// A run of a block's events: `count` of them from `first` on.
struct EventRun {
  size_t first = 0;
  size_t count = 0;
};

// Whether all columns are equally long, and the tags fit them.
Status check_columns(const EventColumns& columns);

// The levels of a payload's calls, bit n for wire::Level n, from its first bytes alone. Bit 0
// stands for calls of levels that this version does not know.
Result<uint32_t> block_levels(ByteView payload, uint32_t count);

// The bit of one call.
constexpr uint32_t level_bit(wire::Call call) {
  const auto level = static_cast<uint32_t>(wire::level_of(call));
  return level < wire::kLevelCount ? 1u << level : 1u;
}

class BlockEncoder {
 public:
  BlockEncoder();
  BlockEncoder(BlockEncoder&&) noexcept;
  ~BlockEncoder();

  // Appends the payload. `base_ns` is the time from which the block counts, best its earliest
  // begin. REQUIRES: check_columns() is ok, and run.count is 1 to kTraceBlockEventsMax.
  void encode(const EventColumns& columns, EventRun run, uint64_t base_ns, BytesOut& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class BlockDecoder {
 public:
  BlockDecoder();
  BlockDecoder(BlockDecoder&&) noexcept;
  ~BlockDecoder();

  // Overwrites `columns` with the events of a payload.
  Status decode(ByteView payload, uint32_t count, uint64_t base_ns, EventColumns& columns);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
