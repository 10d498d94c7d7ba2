// BlockCodec: encodes the events of one block, and decodes them. docs/formats/trace.md, "Events".
//
// Encoders and decoders reuse their working memory; each thread has its own. Input is not trusted:
// decoding checks every count and length before using it, and never holds more than a block of
// kTraceBlockEventsMax events.
#pragma once

#include <memory>

#include "base/base.h"
#include "base/result.h"
#include "trace/pack/bytes_out.h"
#include "trace/read/columns.h"
#include "wire/trace_call.h"

namespace millrace::trace {

// `count` consecutive events of a block, starting at `first`.
struct EventRun {
  size_t first = 0;
  size_t count = 0;
};

// Whether all columns have the same length, and the tags match them.
Status check_columns(const EventColumns& columns);

// The levels of the calls in a payload, read from its first bytes only. Bit n is wire::Level n; bit
// 0 stands for levels that this version does not know.
Result<uint32_t> block_levels(ByteView payload, uint32_t count);

// The bit of a call's level.
constexpr uint32_t level_bit(wire::Call call) {
  const auto level = static_cast<uint32_t>(wire::level_of(call));
  return level < wire::kLevelCount ? 1u << level : 1u;
}

class BlockEncoder {
 public:
  BlockEncoder();
  BlockEncoder(BlockEncoder&&) noexcept;
  ~BlockEncoder();

  // Appends the payload. Times are stored relative to `base_ns`, ideally the earliest begin of the
  // block. REQUIRES: check_columns() is ok, and run.count is 1 to kTraceBlockEventsMax.
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
