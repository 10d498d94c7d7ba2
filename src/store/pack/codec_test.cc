#include "store/pack/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "base/numbers/counter_random.h"
#include "store/pack/lz4.h"

namespace millrace::store {
namespace {

using wire::PackCodec;

std::vector<std::byte> random_bytes(size_t size) {
  CounterRandom random(1, size);
  std::vector<std::byte> bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

std::vector<std::byte> text_bytes(size_t size) {
  CounterRandom random(2, size);
  std::string text;
  while (text.size() < size) text += fmt::format("line {} of a text\n", random.below(1000));
  text.resize(size);
  const ByteView view = bytes_of(text);
  return {view.begin(), view.end()};
}

template <typename T>
std::vector<std::byte> smooth_numbers(size_t count) {
  std::vector<T> values(count);
  CounterRandom random(3, count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(std::sin(static_cast<double>(i) / 500) + random.uniform() / 1000);
  }
  const ByteView view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

std::vector<std::byte> round_trip(Encoding encoding, ByteView bytes) {
  BlockCodec codec;
  std::vector<std::byte> packed;
  if (!codec.encode_member(encoding, bytes, packed)) return {};
  std::vector<std::byte> out(bytes.size());
  EXPECT_TRUE(codec.decode_member(encoding, packed, out).ok());
  return out;
}

TEST(Lz4, RoundTripsTextOfEveryShortLength) {
  for (size_t size = 0; size < 300; ++size) {
    const auto bytes = text_bytes(size);
    std::vector<std::byte> packed(size + 64);
    const size_t length = lz4_compress(bytes, packed);
    ASSERT_GT(length, 0u) << size;
    std::vector<std::byte> out(size);
    ASSERT_TRUE(lz4_decompress(ByteView(packed).first(length), out)) << size;
    ASSERT_EQ(out, bytes);
  }
}

TEST(Lz4, DecodesAKnownBlock) {
  // Five literals "abcde", a match of 10 bytes at distance 5, and the last five literals.
  const std::string block = std::string("\x56") + "abcde" + std::string("\x05\0", 2) + "\x50zyxwv";
  std::vector<std::byte> out(20);
  ASSERT_TRUE(lz4_decompress(bytes_of(block), out));
  EXPECT_EQ(text_of(out), "abcdeabcdeabcdezyxwv");
}

TEST(Lz4, DecodesABlockOfTheEncoderThatMillraceOnceHad) {
  using namespace std::string_literals;
  const std::string block = "\xf0\x04"s + "a dataset, a sample" + "\x0a\0\x07\x15\0"s + "Pbatch" +
                            "\x14\0\x08\x1e\0"s + "Ptaset";
  std::vector<std::byte> out(60);
  ASSERT_TRUE(lz4_decompress(bytes_of(block), out));
  EXPECT_EQ(text_of(out), "a dataset, a sample, a dataset, a batch, a sample, a dataset");
}

TEST(Lz4, RefusesEveryTruncationAndWrongLength) {
  const auto bytes = text_bytes(5000);
  std::vector<std::byte> packed(6000);
  packed.resize(lz4_compress(bytes, packed));
  std::vector<std::byte> out(bytes.size());
  for (size_t length = 0; length < packed.size(); ++length) {
    EXPECT_FALSE(lz4_decompress(ByteView(packed).first(length), out)) << length;
  }
  std::vector<std::byte> longer(bytes.size() + 1);
  EXPECT_FALSE(lz4_decompress(packed, longer));
  std::vector<std::byte> shorter(bytes.size() - 1);
  EXPECT_FALSE(lz4_decompress(packed, shorter));
}

TEST(Lz4, SaysIfItDoesNotFit) {
  const auto bytes = random_bytes(1000);
  std::vector<std::byte> packed(1000);
  EXPECT_EQ(lz4_compress(bytes, packed), 0u);
}

TEST(BlockCodec, RoundTripsEveryEncodingAndLengthAroundABlock) {
  for (const PackCodec codec : {PackCodec::kLz4, PackCodec::kZstd}) {
    for (const unsigned size_of_element : {0u, 2u, 4u, 8u}) {
      const auto shuffle = static_cast<uint8_t>(size_of_element);
      for (const size_t size : {size_t{300}, size_t{4097}, size_t{1} << 20, (size_t{1} << 20) + 1,
                                (size_t{3} << 20) + 7}) {
        const auto bytes = std::vector<std::byte>(size, std::byte{7});
        EXPECT_EQ(round_trip({codec, shuffle}, bytes), bytes) << size;
      }
    }
  }
}

TEST(BlockCodec, StoresRandomBytesRaw) {
  const auto bytes = random_bytes(100'000);
  EXPECT_EQ(BlockCodec().choose(CodecChoice::kAuto, bytes).codec, PackCodec::kRaw);
  EXPECT_EQ(BlockCodec().choose(CodecChoice::kZstd, bytes).codec, PackCodec::kRaw);
}

TEST(BlockCodec, StoresAFileRawIfItGainsUnderATenth) {
  auto bytes = random_bytes(10'000);
  std::fill_n(bytes.begin(), 800, std::byte{});
  std::vector<std::byte> packed;
  EXPECT_FALSE(BlockCodec().encode_member({PackCodec::kLz4, 0}, bytes, packed));
  EXPECT_TRUE(packed.empty());
}

TEST(BlockCodec, ChoosesZstdForText) {
  const Encoding chosen = BlockCodec().choose(CodecChoice::kAuto, text_bytes(200'000));
  EXPECT_EQ(chosen.codec, PackCodec::kZstd);
  EXPECT_EQ(chosen.shuffle, 0);
}

TEST(BlockCodec, ShufflesSmoothNumbers) {
  BlockCodec codec;
  EXPECT_EQ(codec.choose(CodecChoice::kAuto, smooth_numbers<float>(50'000)).shuffle, 4);
  EXPECT_EQ(codec.choose(CodecChoice::kAuto, smooth_numbers<double>(50'000)).shuffle, 8);
}

TEST(BlockCodec, AlwaysUsesTheCodecThatWasAskedFor) {
  const auto bytes = text_bytes(50'000);
  EXPECT_EQ(BlockCodec().choose(CodecChoice::kLz4, bytes).codec, PackCodec::kLz4);
  EXPECT_EQ(BlockCodec().choose(CodecChoice::kZstd, bytes).codec, PackCodec::kZstd);
  EXPECT_EQ(BlockCodec().choose(CodecChoice::kNone, bytes).codec, PackCodec::kRaw);
}

TEST(BlockCodec, AnIncompressibleBlockInsideAMemberIsRaw) {
  auto bytes = std::vector<std::byte>(size_t{3} << 20, std::byte{1});
  const auto noise = random_bytes(wire::kPackBlockBytes);
  std::copy(noise.begin(), noise.end(), bytes.begin() + wire::kPackBlockBytes);
  EXPECT_EQ(round_trip({PackCodec::kLz4, 4}, bytes), bytes);
}

TEST(BlockCodec, DamagedBlocksAreErrors) {
  BlockCodec codec;
  const auto bytes = text_bytes(100'000);
  for (const PackCodec each : {PackCodec::kLz4, PackCodec::kZstd}) {
    std::vector<std::byte> packed;
    ASSERT_TRUE(codec.encode_member({each, 0}, bytes, packed));
    std::vector<std::byte> out(bytes.size());
    EXPECT_FALSE(
        codec.decode_member({each, 0}, ByteView(packed).first(packed.size() - 1), out).ok());
    EXPECT_FALSE(codec.decode_member({each, 0}, ByteView(packed).first(3), out).ok());
    EXPECT_FALSE(codec.decode_member({each, 3}, packed, out).ok());
    EXPECT_FALSE(codec.decode_member({}, packed, out).ok());
    // A length that no memory could hold is refused before it is used.
    EXPECT_FALSE(split_blocks({each, 0}, packed, uint64_t{1} << 62).ok());
  }
}

}  // namespace
}  // namespace millrace::store
