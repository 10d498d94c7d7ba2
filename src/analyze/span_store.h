// SpanStore: very many spans of time, each with a tag, in four to five bytes a span.
//
// Spans come a list at a time and are united within the list; the store never unites across lists,
// that is the reader's work (time_sweep.h). They are kept in chunks of up to kChunkSpans, each
// readable alone, so that a reader may take a slice of time without touching the rest. A chunk is
// the gap before and the length of each span, in 1, 2, 3 or 8 bytes, with a byte of sizes before
// every two spans: read without a branch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "analyze/epochs.h"
#include "base/bytes.h"
#include "base/result.h"

namespace millrace::analyze {

struct SpanChunk {
  uint64_t begin_ns = 0;  // of its first span
  uint64_t end_ns = 0;    // of its last
  uint32_t tag = 0;
  uint32_t span_count = 0;
  uint32_t buffer = 0;
  uint32_t offset_bytes = 0;
};
static_assert(sizeof(SpanChunk) == 32);

// What one block of events adds, packed before the store's lock is taken. May be used again.
class SpanBatch {
 public:
  // The union of `spans`, which is left in disorder. Quickest if they stand in the order of their
  // ends, as events of one thread do. Those without length are left out.
  void add(uint32_t tag, std::vector<Interval>& spans);

 private:
  friend class SpanStore;
  void pack(uint32_t tag, const Interval* first, size_t count);

  std::vector<SpanChunk> chunks_;
  std::vector<std::byte> bytes_;  // longer than used_bytes_
  size_t used_bytes_ = 0;
  std::vector<Interval> scratch_;
};

// Not thread-safe: its owner has the lock.
class SpanStore {
 public:
  static constexpr size_t kChunkSpans = 256;

  // Empties the batch and keeps its memory.
  void add(SpanBatch& batch);

  const std::vector<SpanChunk>& chunks() const { return chunks_; }
  uint64_t span_count() const { return span_count_; }
  uint64_t size_bytes() const;

  // Calls `take(begin_ns, end_ns)` for each span of a chunk, in order, until it returns false.
  template <typename Take>
  void visit(const SpanChunk& chunk, Take take) const;

  void save(std::vector<std::byte>& out) const;

  // `tag_limit`: tags at or above it are refused.
  Status merge(ByteReader& saved, uint32_t tag_limit);

 private:
  std::vector<SpanChunk> chunks_;
  std::vector<std::vector<std::byte>> buffers_;  // each with kSpanPadding bytes at its end
  uint64_t span_count_ = 0;
};

// Numbers are read eight bytes at a time.
inline constexpr size_t kSpanPadding = 8;
inline constexpr std::array<uint8_t, 4> kSpanSizes = {1, 2, 3, 8};

class SpanCursor {
 public:
  explicit SpanCursor(const std::byte* at) : at_(at) {}

  uint64_t next(unsigned code) {
    constexpr std::array<uint64_t, 4> kMasks = {0xff, 0xffff, 0xffffff, ~uint64_t{0}};
    uint64_t value;
    std::memcpy(&value, at_, sizeof(value));
    at_ += kSpanSizes[code];
    return value & kMasks[code];
  }
  unsigned sizes() { return std::to_integer<unsigned>(*at_++); }

 private:
  const std::byte* at_;
};

template <typename Take>
void SpanStore::visit(const SpanChunk& chunk, Take take) const {
  SpanCursor cursor(buffers_[chunk.buffer].data() + chunk.offset_bytes);
  uint64_t end = chunk.begin_ns;
  unsigned sizes = 0;
  for (uint32_t i = 0; i < chunk.span_count; ++i) {
    sizes = i % 2 == 0 ? cursor.sizes() : sizes >> 4;
    const uint64_t begin = end + cursor.next(sizes & 3);
    end = begin + cursor.next((sizes >> 2) & 3);
    if (!take(begin, end)) return;
  }
}

}  // namespace millrace::analyze
