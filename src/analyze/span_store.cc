#include "analyze/span_store.h"

#include <algorithm>

#include "analyze/radix_sort.h"

namespace millrace::analyze {
namespace {

constexpr size_t kMostBytesASpan = 17;  // a gap, a length, and the byte of sizes

unsigned size_code(uint64_t value) {
  if (value < 0x100) return 0;
  if (value < 0x10000) return 1;
  return value < 0x1000000 ? 2 : 3;
}

// The union, at the end of `spans`; returns where it begins there. From the last to the first: in
// the order of ends, a span that contains others stands after them.
size_t unite(std::vector<Interval>& spans, std::vector<Interval>& scratch) {
  std::erase_if(spans, [](const Interval& span) { return span.begin_ns >= span.end_ns; });
  if (spans.empty()) return 0;
  radix_sort(spans, scratch, [](const Interval& span) { return span.end_ns; });
  size_t place = spans.size();
  Interval open = spans.back();
  for (size_t i = spans.size() - 1; i-- > 0;) {
    const Interval span = spans[i];
    if (span.end_ns >= open.begin_ns) {
      open.begin_ns = std::min(open.begin_ns, span.begin_ns);
      continue;
    }
    spans[--place] = open;
    open = span;
  }
  spans[--place] = open;
  return place;
}

// How many bytes the spans of a chunk take, or an error where they are not what the chunk says.
Result<size_t> check_chunk(const SpanChunk& chunk, ByteView bytes) {
  const auto corrupt = [&] {
    return fail(Errc::kCorrupt, "saved spans of time are not well formed");
  };
  size_t at = 0;
  unsigned sizes = 0;
  uint64_t end = chunk.begin_ns;
  const auto next = [&](unsigned code, uint64_t& value) {
    const size_t size_bytes = kSpanSizes[code];
    if (size_bytes > bytes.size() - at) return false;
    value = 0;
    std::memcpy(&value, bytes.data() + at, size_bytes);
    at += size_bytes;
    return true;
  };
  for (uint32_t i = 0; i < chunk.span_count; ++i) {
    if (i % 2 == 0) {
      if (at == bytes.size()) return corrupt();
      sizes = std::to_integer<unsigned>(bytes[at++]);
    } else {
      sizes >>= 4;
    }
    uint64_t gap = 0;
    uint64_t length = 0;
    if (!next(sizes & 3, gap) || !next((sizes >> 2) & 3, length)) return corrupt();
    if (gap > ~end || length == 0 || length > ~(end + gap)) return corrupt();
    if ((gap == 0) != (i == 0)) return corrupt();  // spans that touch are one
    end += gap + length;
  }
  if (end != chunk.end_ns) return corrupt();
  return at;
}

}  // namespace

void SpanBatch::add(uint32_t tag, std::vector<Interval>& spans) {
  const size_t first = unite(spans, scratch_);
  for (size_t at = first; at < spans.size(); at += SpanStore::kChunkSpans) {
    pack(tag, &spans[at], std::min(spans.size() - at, SpanStore::kChunkSpans));
  }
}

void SpanBatch::pack(uint32_t tag, const Interval* first, size_t count) {
  const size_t most = used_bytes_ + count * kMostBytesASpan + kSpanPadding;
  if (bytes_.size() < most) bytes_.resize(std::max(most, bytes_.size() * 2));
  std::byte* at = bytes_.data() + used_bytes_;
  std::byte* sizes = nullptr;
  const auto put = [&](uint64_t value, unsigned code) {
    std::memcpy(at, &value, sizeof(value));
    at += kSpanSizes[code];
  };
  uint64_t end = first->begin_ns;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t gap = first[i].begin_ns - end;
    const uint64_t length = first[i].end_ns - first[i].begin_ns;
    const unsigned gap_code = size_code(gap);
    const unsigned length_code = size_code(length);
    const auto codes = static_cast<std::byte>(gap_code | length_code << 2);
    if (i % 2 == 0) {
      sizes = at++;
      *sizes = codes;
    } else {
      *sizes |= codes << 4;
    }
    put(gap, gap_code);
    put(length, length_code);
    end = first[i].end_ns;
  }
  chunks_.push_back({.begin_ns = first->begin_ns,
                     .end_ns = end,
                     .tag = tag,
                     .span_count = static_cast<uint32_t>(count),
                     .buffer = 0,
                     .offset_bytes = static_cast<uint32_t>(used_bytes_)});
  used_bytes_ = static_cast<size_t>(at - bytes_.data());
}

void SpanStore::add(SpanBatch& batch) {
  if (batch.chunks_.empty()) return;
  const auto used = static_cast<ptrdiff_t>(batch.used_bytes_ + kSpanPadding);
  buffers_.emplace_back(batch.bytes_.begin(), batch.bytes_.begin() + used);
  for (SpanChunk& chunk : batch.chunks_) {
    chunk.buffer = static_cast<uint32_t>(buffers_.size() - 1);
    span_count_ += chunk.span_count;
  }
  chunks_.insert(chunks_.end(), batch.chunks_.begin(), batch.chunks_.end());
  batch.chunks_.clear();
  batch.used_bytes_ = 0;
}

uint64_t SpanStore::size_bytes() const {
  uint64_t total = chunks_.capacity() * sizeof(SpanChunk);
  for (const auto& buffer : buffers_) total += buffer.capacity();
  return total;
}

// The number of buffers; of each its chunks and its bytes. Chunks of a buffer follow each other.
void SpanStore::save(std::vector<std::byte>& out) const {
  const auto put = [&out](const auto& value) {
    const ByteView bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  put(uint64_t{buffers_.size()});
  size_t first = 0;
  for (uint32_t i = 0; i < buffers_.size(); ++i) {
    size_t last = first;
    while (last < chunks_.size() && chunks_[last].buffer == i) ++last;
    put(uint64_t{last - first});
    for (; first < last; ++first) put(chunks_[first]);
    put(uint64_t{buffers_[i].size() - kSpanPadding});
    out.insert(out.end(), buffers_[i].begin(), buffers_[i].end() - kSpanPadding);
  }
}

Status SpanStore::merge(ByteReader& saved, uint32_t tag_limit) {
  ASSIGN_OR_RETURN(const uint64_t buffer_count, saved.read<uint64_t>());
  // Gathered aside, so that an error leaves this store as it was.
  std::vector<SpanChunk> chunks;
  std::vector<std::vector<std::byte>> buffers;
  uint64_t span_count = 0;
  for (uint64_t i = 0; i < buffer_count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t chunk_count, saved.read<uint64_t>());
    const size_t first = chunks.size();
    for (uint64_t k = 0; k < chunk_count; ++k) {
      ASSIGN_OR_RETURN(SpanChunk chunk, saved.read<SpanChunk>());
      chunk.buffer = static_cast<uint32_t>(buffers_.size() + buffers.size());
      chunks.push_back(chunk);
    }
    ASSIGN_OR_RETURN(const uint64_t size_bytes, saved.read<uint64_t>());
    ASSIGN_OR_RETURN(const ByteView bytes, saved.take(size_bytes));
    size_t at = 0;
    for (size_t k = first; k < chunks.size(); ++k) {
      const SpanChunk& chunk = chunks[k];
      if (chunk.tag >= tag_limit || chunk.offset_bytes != at || chunk.span_count == 0 ||
          chunk.span_count > kChunkSpans) {
        return fail(Errc::kCorrupt, "saved spans of time do not belong to this trace");
      }
      ASSIGN_OR_RETURN(const size_t used_bytes, check_chunk(chunk, bytes.subspan(at)));
      at += used_bytes;
      span_count += chunk.span_count;
    }
    if (at != bytes.size()) return fail(Errc::kCorrupt, "saved spans of time have bytes to spare");
    auto& buffer = buffers.emplace_back(bytes.begin(), bytes.end());
    buffer.resize(buffer.size() + kSpanPadding);
  }
  chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
  for (auto& buffer : buffers) buffers_.push_back(std::move(buffer));
  span_count_ += span_count;
  return {};
}

}  // namespace millrace::analyze
