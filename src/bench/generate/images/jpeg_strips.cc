#include "bench/generate/images/jpeg_strips.h"

#include <algorithm>
#include <cstring>

#include "format/images/jpeg.h"

namespace millrace::bench {
namespace {

constexpr uint32_t kStripWidth = 512;  // in pixels
constexpr uint32_t kStripCount = 32;
constexpr size_t kMarkerBytes = 2;
constexpr uint64_t kStripsFile = ~uint64_t{0};  // no file of a dataset has this number
constexpr uint64_t kNoiseKey = 0x6a70656773747269;
constexpr size_t kNoisePlaces = 1024;  // where the noise of a strip may begin

// Strips are copied in these.
using Words = uint64_t __attribute__((vector_size(JpegInterval::kUnitBytes)));

Words words_at(const std::byte* from) {
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

// What makes the bits of a strip random. A random number for each word of each file would take as
// long as the rest of generation.
struct Change {
  const std::byte* noise = nullptr;  // at least as long as the strip
  uint64_t salt = 0;
};

// Copies the strip with other free bits.
void copy_changed(const JpegInterval& strip, size_t size_bytes, const Change& change,
                  std::byte* to) {
  for (size_t at = 0; at < size_bytes; at += sizeof(Words)) {
    const Words noise = words_at(change.noise + at) ^ change.salt;
    const Words words =
        words_at(strip.bytes.data() + at) ^ (noise & words_at(strip.free_bits.data() + at));
    std::memcpy(to + at, &words, sizeof(words));
  }
}

// Ends an interval after the first bits of its last byte: ones follow.
size_t end_interval(const JpegInterval::End& end, std::byte* interval) {
  std::byte& last = interval[end.size_bytes - 1];
  last |= static_cast<std::byte>(0xff >> end.last_bits);
  if (last != std::byte{0xff}) return end.size_bytes;
  interval[end.size_bytes] = {};  // it is no marker
  return end.size_bytes + 1;
}

size_t put_marker(uint8_t marker, std::byte* to) {
  to[0] = std::byte{0xff};
  to[1] = std::byte{marker};
  return kMarkerBytes;
}

void put_pair(uint32_t value, std::byte* to) {
  to[0] = static_cast<std::byte>(value >> 8);
  to[1] = static_cast<std::byte>(value);
}

}  // namespace

Result<JpegStrips> JpegStrips::encode(const Content& content, bool is_gray, int quality) {
  const uint32_t strip_height = is_gray ? 8 : 16;
  const image::Size size{.width = kStripWidth, .height = strip_height * kStripCount};
  ContentArray array{.sample = {.file = {.index = kStripsFile}},
                     .shape = {size.height, size.width}};
  if (!is_gray) array.shape = {size.height, size.width, image::kChannels};
  std::vector<std::byte> pixels(static_cast<size_t>(array.size_bytes()));
  content.fill(array, 0, pixels);
  const image::ImageView view{.pixels = reinterpret_cast<const uint8_t*>(pixels.data()),
                              .size = size,
                              .stride_bytes = pixels.size() / size.height};
  ASSIGN_OR_RETURN(
      const std::vector<std::byte> jpeg,
      format::write_jpeg(view, {.quality = quality, .is_gray = is_gray, .restarts = true}));
  JpegStrips strips;
  ASSIGN_OR_RETURN(strips.scan_, parse_jpeg_scan(jpeg));
  strips.head_.assign(jpeg.begin(), jpeg.begin() + static_cast<ptrdiff_t>(strips.scan_.head_bytes));
  for (const JpegInterval& strip : strips.scan_.intervals) {
    strips.strip_bytes_max_ = std::max(strips.strip_bytes_max_, strip.bytes.size());
  }
  strips.noise_.resize(strips.strip_bytes_max_ / sizeof(uint64_t) + kNoisePlaces);
  for (size_t i = 0; i < strips.noise_.size(); ++i) strips.noise_[i] = random_word(kNoiseKey, i);
  return strips;
}

size_t JpegStrips::mcu_count(image::Size size) const {
  const size_t columns = (size_t{size.width} + scan_.mcu.width - 1) / scan_.mcu.width;
  return columns * ((size_t{size.height} + scan_.mcu.height - 1) / scan_.mcu.height);
}

size_t JpegStrips::room_bytes(image::Size size) const {
  const size_t strip_count = mcu_count(size) / scan_.interval_mcus + 1;
  return head_.size() + strip_count * (strip_bytes_max_ + kMarkerBytes) + kMarkerBytes +
         JpegInterval::kUnitBytes;
}

size_t JpegStrips::write(uint64_t key, image::Size size, MutableByteView out) const {
  std::memcpy(out.data(), head_.data(), head_.size());
  put_pair(size.height, out.data() + scan_.size_at);
  put_pair(size.width, out.data() + scan_.size_at + 2);
  std::byte* to = out.data() + head_.size();
  const size_t strip_count = scan_.intervals.size();
  size_t left = mcu_count(size);
  for (uint64_t i = 0;; ++i) {
    const uint64_t choice = random_word(key, 2 * i);
    const JpegInterval& strip = scan_.intervals[static_cast<size_t>(choice % strip_count)];
    const size_t place = static_cast<size_t>(choice / strip_count % kNoisePlaces);
    const Change change{.noise = std::as_bytes(std::span(noise_)).data() + place * sizeof(uint64_t),
                        .salt = random_word(key, 2 * i + 1)};
    const size_t count = std::min(left, strip.ends.size());
    const JpegInterval::End& end = strip.ends[count - 1];
    copy_changed(strip, end.size_bytes, change, to);
    to += end_interval(end, to);
    left -= count;
    if (left == 0) break;
    to += put_marker(static_cast<uint8_t>(0xd0 + i % 8), to);
  }
  to += put_marker(0xd9, to);
  return static_cast<size_t>(to - out.data());
}

}  // namespace millrace::bench
