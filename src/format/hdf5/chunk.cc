#include "format/hdf5/chunk.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/io/inflate.h"

namespace millrace::format {
namespace {

using FilterKind = Hdf5Filter::Kind;

constexpr size_t kChecksumBytes = 4;
constexpr size_t kChunksMax = 64;
constexpr size_t kHeldBytesMax = 32 * 1024 * 1024;
constexpr size_t kSlackBytes = 64 * 1024;

// Byte j of every element comes from the run j. Bytes after the last whole element stay in place.
template <size_t kWidth>
void unshuffle_fixed(const std::byte* in, std::byte* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < kWidth; ++j) out[i * kWidth + j] = in[j * count + i];
  }
}

void unshuffle(ByteView in, size_t width, MutableByteView out) {
  const size_t count = in.size() / width;
  switch (width) {
    case 2:
      unshuffle_fixed<2>(in.data(), out.data(), count);
      break;
    case 4:
      unshuffle_fixed<4>(in.data(), out.data(), count);
      break;
    case 8:
      unshuffle_fixed<8>(in.data(), out.data(), count);
      break;
    default:
      for (size_t j = 0; j < width; ++j) {
        for (size_t i = 0; i < count; ++i) out[i * width + j] = in[j * count + i];
      }
  }
  const size_t whole = count * width;
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(whole), in.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
}

// LZF, the fast compression of h5py: runs of literal bytes, and references to earlier output.
Status expand_lzf(ByteView packed, MutableByteView out) {
  const auto at = [&](size_t i) { return std::to_integer<size_t>(packed[i]); };
  size_t in = 0;
  size_t made = 0;
  while (in < packed.size()) {
    const size_t control = at(in++);
    if (control < 32) {
      const size_t length = control + 1;
      if (length > packed.size() - in || length > out.size() - made) break;
      std::memcpy(out.data() + made, packed.data() + in, length);
      in += length;
      made += length;
      continue;
    }
    size_t length = (control >> 5) + 2;
    if (packed.size() - in < (length == 9 ? 2 : 1)) break;
    if (length == 9) length += at(in++);
    const size_t distance = ((control & 31) << 8 | at(in++)) + 1;
    if (distance > made || length > out.size() - made) break;
    // Byte by byte, because a reference may overlap what it makes.
    for (size_t i = 0; i < length; ++i, ++made) out[made] = out[made - distance];
  }
  if (in == packed.size() && made == out.size()) return {};
  return fail(Errc::kCorrupt, "the compressed data yields {} of {} bytes from {} of its {} bytes",
              made, out.size(), in, packed.size());
}

// HDF5's Fletcher-32 over big-endian words of 16 bits.
uint32_t fletcher32(ByteView bytes) {
  constexpr size_t kWordsAtOnce = 360;  // before the sums overflow
  uint32_t low = 0;
  uint32_t high = 0;
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  const auto fold = [&] {
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
  };
  size_t i = 0;
  while (i + 1 < bytes.size()) {
    const size_t end = std::min(bytes.size() - 1, i + 2 * kWordsAtOnce);
    for (; i < end; i += 2) {
      low += at(i) << 8 | at(i + 1);
      high += low;
    }
    fold();
  }
  if (i < bytes.size()) {
    low += at(i) << 8;
    high += low;
    fold();
  }
  fold();
  return high << 16 | low;
}

Result<ByteView> verified(ByteView bytes) {
  if (bytes.size() < kChecksumBytes) {
    return fail(Errc::kCorrupt, "a chunk of {} bytes has no room for its checksum", bytes.size());
  }
  const ByteView content = bytes.first(bytes.size() - kChecksumBytes);
  uint32_t wanted = 0;
  std::memcpy(&wanted, bytes.data() + content.size(), sizeof(wanted));
  const uint32_t found = fletcher32(content);
  // Old versions of HDF5 stored the bytes of both sums in the other order.
  const uint32_t swapped = (found & 0x00ff00ffu) << 8 | (found >> 8 & 0x00ff00ffu);
  if (wanted == found || wanted == swapped) return content;
  return fail(Errc::kCorrupt, "its {} bytes have the checksum {:08x}, expected {:08x}",
              content.size(), found, wanted);
}

bool is_applied(const Hdf5Chunk& chunk, size_t filter) {
  return (chunk.skipped_filters >> filter & 1) == 0;
}

// The length of what filter i was applied to. Only checksums before it add to the elements.
uint64_t length_before(const Hdf5Dataset& dataset, const Hdf5Chunk& chunk, size_t filter) {
  uint64_t bytes = dataset.chunk_bytes();
  for (size_t i = 0; i < filter; ++i) {
    const bool adds = dataset.filters[i].kind == FilterKind::kFletcher32 && is_applied(chunk, i);
    bytes += adds ? kChecksumBytes : 0;
  }
  return bytes;
}

}  // namespace

Status decode_chunk(const Hdf5Dataset& dataset, const Hdf5Chunk& chunk, ByteView packed,
                    data::Buffer (&spare)[2], MutableByteView out) {
  ByteView bytes = packed;
  // Steps alternate between two buffers. The last step that moves bytes writes to `out`.
  size_t next = 0;
  const auto room = [&](size_t filter, uint64_t size_bytes) {
    bool is_last = true;
    for (size_t i = 0; i < filter; ++i) {
      is_last =
          is_last && (!is_applied(chunk, i) || dataset.filters[i].kind == FilterKind::kFletcher32);
    }
    if (is_last && size_bytes == out.size()) return out;
    next = 1 - next;
    return spare[next].room(static_cast<size_t>(size_bytes)).first(static_cast<size_t>(size_bytes));
  };
  for (size_t i = dataset.filters.size(); i-- > 0;) {
    if (!is_applied(chunk, i)) continue;
    const Hdf5Filter& filter = dataset.filters[i];
    const uint64_t length = length_before(dataset, chunk, i);
    if (filter.kind == FilterKind::kFletcher32) {
      ASSIGN_OR_RETURN(bytes, verified(bytes));
    } else if (filter.kind == FilterKind::kDeflate || filter.kind == FilterKind::kLzf) {
      const MutableByteView expanded = room(i, length);
      RETURN_IF_ERROR(filter.kind == FilterKind::kLzf ? expand_lzf(bytes, expanded)
                                                      : inflate_zlib_into(bytes, expanded));
      bytes = expanded;
    } else if (filter.element_bytes > 1) {
      const MutableByteView ordered = room(i, bytes.size());
      unshuffle(bytes, filter.element_bytes, ordered);
      bytes = ordered;
    }
  }
  if (bytes.size() != out.size()) {
    return fail(Errc::kCorrupt, "a chunk has {} bytes instead of {}", bytes.size(), out.size());
  }
  if (bytes.data() != out.data() && !out.empty()) {
    std::memcpy(out.data(), bytes.data(), out.size());
  }
  return {};
}

void fill_with(ByteView element, MutableByteView out) {
  const bool is_zero = std::all_of(element.begin(), element.end(),
                                   [](std::byte byte) { return byte == std::byte{0}; });
  if (is_zero || element.size() == 1) {
    if (!out.empty()) std::memset(out.data(), std::to_integer<int>(element[0]), out.size());
    return;
  }
  for (size_t at = 0; at < out.size(); at += element.size()) {
    std::memcpy(out.data() + at, element.data(), element.size());
  }
}

ChunkCache& ChunkCache::of_this_thread() {
  thread_local ChunkCache cache;
  return cache;
}

ByteView ChunkCache::find(const ChunkKey& key) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->key != key) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entries_.front().bytes.room(entries_.front().size_bytes);
  }
  return {};
}

MutableByteView ChunkCache::add(const ChunkKey& key, size_t size_bytes) {
  std::list<Entry> reused;
  while (!entries_.empty() &&
         (entries_.size() >= kChunksMax || held_bytes_ + size_bytes > kHeldBytesMax)) {
    held_bytes_ -= entries_.back().bytes.capacity_bytes();
    reused.clear();
    reused.splice(reused.begin(), entries_, std::prev(entries_.end()));
  }
  if (reused.empty()) reused.emplace_back();
  Entry& entry = reused.front();
  entry.key = key;
  entry.size_bytes = size_bytes;
  // A much larger buffer than needed would count against the limit for nothing.
  if (entry.bytes.capacity_bytes() > 2 * size_bytes + kSlackBytes) entry.bytes = {};
  const MutableByteView room = entry.bytes.room(size_bytes);
  held_bytes_ += entry.bytes.capacity_bytes();
  entries_.splice(entries_.begin(), reused);
  return room;
}

void ChunkCache::forget(const ChunkKey& key) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->key != key) continue;
    held_bytes_ -= entry->bytes.capacity_bytes();
    entries_.erase(entry);
    return;
  }
}

}  // namespace millrace::format
