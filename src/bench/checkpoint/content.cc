#include "bench/checkpoint/content.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/hash/crc32c.h"
#include "base/io/gzip.h"
#include "base/numbers/random.h"

namespace millrace::bench {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kPageWords = kPageBytes / sizeof(uint64_t);
constexpr size_t kPoolPages = 64;  // 256 KiB: stays in the second-level cache
constexpr uint64_t kPoolSeed = 0x6d696c6c72616365;

using Page = std::array<uint64_t, kPageWords>;

// splitmix64's mixing of one number.
uint64_t mixed(uint64_t value) { return Random(value).next(); }

// The state of a CRC is linear over XOR. What a page does to it is therefore the sum of what its
// parts do, which tables by byte hold.
class PageCrc {
 public:
  explicit PageCrc(uint32_t polynomial) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t state = byte;
      for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? polynomial : 0);
      by_byte_[byte] = state;
    }
    for (size_t place = 0; place < advance_.size(); ++place) {
      fill_table(advance_[place],
                 [&](uint32_t bit) { return zeros(uint32_t{1} << (8 * place + bit), kPageBytes); });
    }
    for (size_t place = 0; place < keys_.size(); ++place) {
      fill_table(keys_[place],
                 [&](uint32_t bit) { return repeated(uint64_t{1} << (8 * place + bit)); });
    }
  }

  // The checksum of bytes with checksum `before` that a page with checksum `page` follows.
  uint32_t append_page(uint32_t before, uint32_t page) const {
    uint32_t state = page;
    for (size_t place = 0; place < advance_.size(); ++place) {
      state ^= advance_[place][(before >> (8 * place)) & 0xff];
    }
    return state;
  }

  // The same for a last part of another length.
  uint32_t append(uint32_t before, uint32_t part, size_t part_bytes) const {
    return zeros(before, part_bytes) ^ part;
  }

  // How the checksum of any page changes if `key` is XORed to each of its words.
  uint32_t of_key(uint64_t key) const {
    uint32_t state = 0;
    for (size_t place = 0; place < keys_.size(); ++place) {
      state ^= keys_[place][(key >> (8 * place)) & 0xff];
    }
    return state;
  }

 private:
  using Table = std::array<uint32_t, 256>;

  uint32_t next(uint32_t state, uint8_t byte) const {
    return by_byte_[(state ^ byte) & 0xff] ^ (state >> 8);
  }

  uint32_t zeros(uint32_t state, size_t count) const {
    for (size_t i = 0; i < count; ++i) state = next(state, 0);
    return state;
  }

  uint32_t repeated(uint64_t key) const {
    uint32_t state = 0;
    for (size_t i = 0; i < kPageBytes; ++i) {
      state = next(state, static_cast<uint8_t>(key >> (8 * (i % sizeof(key)))));
    }
    return state;
  }

  template <typename OfBit>
  static void fill_table(Table& table, OfBit of_bit) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      const uint32_t value = of_bit(bit);
      for (uint32_t lower = 0; lower < (1u << bit); ++lower) {
        table[(1u << bit) | lower] = table[lower] ^ value;
      }
    }
  }

  Table by_byte_{};
  std::array<Table, 4> advance_{};
  std::array<Table, 8> keys_{};
};

using Pool = std::array<Page, kPoolPages>;

const Pool& pool() {
  static const std::unique_ptr<const Pool> made = [] {
    auto fresh = std::make_unique<Pool>();
    Random random(kPoolSeed);
    for (Page& page : *fresh) {
      for (uint64_t& word : page) word = random.next();
    }
    return fresh;
  }();
  return *made;
}

const Page& zero_page() {
  static const Page zeros{};
  return zeros;
}

ByteView view_of_page(const Page& page) { return std::as_bytes(std::span(page)); }

// A kind of checksum, and its values of the pages that all content is made of.
struct PageChecksum {
  using Function = uint32_t (*)(ByteView);

  PageChecksum(uint32_t polynomial, Function function)
      : compute(function), pages(polynomial), of_zeros(function(view_of_page(zero_page()))) {
    for (size_t i = 0; i < kPoolPages; ++i) of_pool[i] = function(view_of_page(pool()[i]));
  }

  Function compute;
  PageCrc pages;
  uint32_t of_zeros;
  std::array<uint32_t, kPoolPages> of_pool{};
};

const PageChecksum& page_checksum(ChecksumKind kind) {
  static const PageChecksum zip(0xedb88320, [](ByteView bytes) { return zip_crc32(bytes); });
  static const PageChecksum castagnoli(0x82f63b78, [](ByteView bytes) { return crc32c(bytes); });
  return kind == ChecksumKind::kZip ? zip : castagnoli;
}

// Eight bytes of ones of the type.
uint64_t ones_of(data::ElementType type) {
  switch (type) {
    case data::ElementType::kF64:
      return 0x3ff0000000000000;
    case data::ElementType::kF32:
      return 0x3f8000003f800000;
    case data::ElementType::kF16:
      return 0x3c003c003c003c00;
    case data::ElementType::kBf16:
      return 0x3f803f803f803f80;
    case data::ElementType::kI32:
    case data::ElementType::kU32:
      return 0x0000000100000001;
    case data::ElementType::kI64:
    case data::ElementType::kU64:
      return 1;
    case data::ElementType::kI16:
    case data::ElementType::kU16:
      return 0x0001000100010001;
    case data::ElementType::kI8:
    case data::ElementType::kU8:
    case data::ElementType::kBool:
      break;
  }
  return 0x0101010101010101;
}

}  // namespace

CheckpointContent CheckpointContent::random(uint64_t seed) { return {true, mixed(seed)}; }

CheckpointContent CheckpointContent::ones(data::ElementType type) { return {false, ones_of(type)}; }

uint64_t CheckpointContent::key_of(uint64_t page) const {
  return is_random_ ? mixed(value_ + page) : value_;
}

// REQUIRES: out.size() == kPageBytes.
void CheckpointContent::fill_page(uint64_t page, MutableByteView out) const {
  const uint64_t key = key_of(page);
  const Page& from = is_random_ ? pool()[page % kPoolPages] : zero_page();
  for (size_t i = 0; i < kPageWords; ++i) {
    const uint64_t word = from[i] ^ key;
    std::memcpy(out.data() + i * sizeof(word), &word, sizeof(word));
  }
}

void CheckpointContent::fill(uint64_t offset_bytes, MutableByteView out) const {
  alignas(64) std::array<std::byte, kPageBytes> whole;
  while (!out.empty()) {
    const uint64_t page = offset_bytes / kPageBytes;
    const auto skipped = static_cast<size_t>(offset_bytes % kPageBytes);
    const size_t now = std::min(out.size(), kPageBytes - skipped);
    if (now == kPageBytes) {
      fill_page(page, out.first(kPageBytes));
    } else {
      fill_page(page, whole);
      std::memcpy(out.data(), whole.data() + skipped, now);
    }
    offset_bytes += now;
    out = out.subspan(now);
  }
}

// REQUIRES: found.size() == kPageBytes.
bool CheckpointContent::is_page(uint64_t page, ByteView found) const {
  const uint64_t key = key_of(page);
  const Page& from = is_random_ ? pool()[page % kPoolPages] : zero_page();
  uint64_t difference = 0;
  for (size_t i = 0; i < kPageWords; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, found.data() + i * sizeof(word), sizeof(word));
    difference |= word ^ from[i] ^ key;
  }
  return difference == 0;
}

size_t CheckpointContent::find_difference(uint64_t offset_bytes, ByteView found) const {
  std::array<std::byte, kPageBytes> whole;
  for (size_t done = 0; done < found.size();) {
    const uint64_t page = (offset_bytes + done) / kPageBytes;
    const auto skipped = static_cast<size_t>((offset_bytes + done) % kPageBytes);
    const size_t now = std::min(found.size() - done, kPageBytes - skipped);
    const ByteView part = found.subspan(done, now);
    if (now < kPageBytes || !is_page(page, part)) {
      fill_page(page, whole);
      const auto differs = std::ranges::mismatch(part, ByteView(whole).subspan(skipped, now));
      if (differs.in1 != part.end()) {
        return done + static_cast<size_t>(differs.in1 - part.begin());
      }
    }
    done += now;
  }
  return found.size();
}

uint32_t CheckpointContent::checksum(ChecksumKind kind, uint64_t size_bytes) const {
  const PageChecksum& known = page_checksum(kind);
  const uint64_t whole_pages = size_bytes / kPageBytes;
  uint32_t crc = 0;  // of no bytes
  for (uint64_t page = 0; page < whole_pages; ++page) {
    const uint32_t base = is_random_ ? known.of_pool[page % kPoolPages] : known.of_zeros;
    crc = known.pages.append_page(crc, base ^ known.pages.of_key(key_of(page)));
  }
  const auto left = static_cast<size_t>(size_bytes % kPageBytes);
  if (left == 0) return crc;
  std::array<std::byte, kPageBytes> last;
  fill_page(whole_pages, last);
  return known.pages.append(crc, known.compute(MutableByteView(last).first(left)), left);
}

uint64_t content_seed(std::string_view checkpoint, std::string_view file, uint64_t index) {
  uint64_t seed = mixed(index);
  for (const std::string_view text : {checkpoint, file}) {
    seed = mixed(seed ^ text.size());
    for (const char letter : text) seed = mixed(seed ^ static_cast<uint8_t>(letter));
  }
  return seed;
}

}  // namespace millrace::bench
