#include <gmock/gmock.h>

#include <random>

#include "base/io/gzip.h"
#include "format/parquet/codec.h"
#include "format/parquet/delta.h"
#include "format/parquet/hybrid.h"
#include "format/parquet/metadata.h"
#include "format/parquet/schema.h"
#include "format/parquet/snappy.h"
#include "format/parquet/thrift.h"

namespace millrace::format::parquet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const Status& status) { return status.ok() ? "" : status.error().message(); }

// ---- thrift ----

TEST(Thrift, ReadsWhatIsWritten) {
  std::string bytes;
  ThriftWriter writer(bytes);
  writer.field(1, int32_t{-7});
  writer.field(3, int64_t{1} << 40);
  writer.field(4, true);
  writer.field(5, std::string_view("text"));
  writer.begin_struct(6);
  writer.field(1, int32_t{3});
  writer.end();
  writer.begin_list(7, ThriftType::kI32, 20);
  for (int32_t i = 0; i < 20; ++i) writer.item(i);
  writer.end();

  ThriftReader reader(bytes_of(bytes));
  int32_t small = 0;
  int64_t large = 0;
  bool flag = false;
  std::string_view text;
  int32_t inner = 0;
  int32_t sum = 0;
  reader.read_struct([&](int16_t id, ThriftType type) {
    if (id == 1) return reader.read(type, small);
    if (id == 3) return reader.read(type, large);
    if (id == 4) return reader.read(type, flag);
    if (id == 5) return reader.read(type, text);
    if (id == 6) {
      return reader.read_struct(type,
                                [&](int16_t, ThriftType kind) { return reader.read(kind, inner); });
    }
    return reader.read_list(
        type, [](uint64_t) {},
        [&](ThriftType kind) {
          int32_t item = 0;
          reader.read(kind, item);
          sum += item;
        });
  });
  EXPECT_EQ(error_of(reader.status()), "");
  EXPECT_EQ(small, -7);
  EXPECT_EQ(large, int64_t{1} << 40);
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(inner, 3);
  EXPECT_EQ(sum, 190);
  EXPECT_EQ(reader.position(), bytes.size());
}

TEST(Thrift, DeepNestingIsRefused) {
  const std::string bytes(1000, '\x1c');  // a struct whose first field is a struct, and so on
  ThriftReader reader(bytes_of(bytes));
  reader.read_struct([](int16_t, ThriftType) { return false; });
  EXPECT_THAT(error_of(reader.status()), HasSubstr("nested too deep"));
}

TEST(Thrift, AListIsNotLongerThanTheBytes) {
  const std::string bytes = std::string("\x19\xf5\xff\xff\xff\x7f", 6) + std::string(10, '\0');
  ThriftReader reader(bytes_of(bytes));
  reader.read_struct([&](int16_t, ThriftType type) {
    return reader.read_list(
        type, [](uint64_t count) { EXPECT_EQ(count, 0u); }, [](ThriftType) { FAIL(); });
  });
  EXPECT_THAT(error_of(reader.status()), HasSubstr("too long"));
}

TEST(Thrift, AnEmptyListNeedsNoType) {
  const std::string bytes("\x19\x00\x15\x06\x00", 5);  // as fastparquet writes it; then 3
  ThriftReader reader(bytes_of(bytes));
  int32_t after = 0;
  reader.read_struct(
      [&](int16_t id, ThriftType type) { return id == 2 && reader.read(type, after); });
  EXPECT_EQ(error_of(reader.status()), "");
  EXPECT_EQ(after, 3);
}

// ---- snappy ----

TEST(Snappy, DecompressesTheElementsOfItsFormat) {
  // The literal "abcd", a copy of one byte offset (4 back, 8 long: it overlaps itself), a copy of
  // two bytes offset, a copy of four bytes offset.
  const std::string block(
      "\x13\x0c"
      "abcd"
      "\x11\x04"
      "\x0a\x0c\0"
      "\x0f\x01\0\0\0",
      16);
  std::string out(19, '#');
  EXPECT_EQ(error_of(snappy_decompress(bytes_of(block), std::as_writable_bytes(std::span(out)))),
            "");
  EXPECT_EQ(out, "abcdabcdabcdabccccc");
}

TEST(Snappy, RoundTrips) {
  std::mt19937 random(1);
  for (const size_t size : {0, 1, 5, 60, 61, 300, 65536, 70000, 300000}) {
    for (const unsigned letters : {1, 4, 256}) {
      std::string text(size, '\0');
      for (char& letter : text) letter = static_cast<char>(random() % letters);
      std::string block;
      snappy_compress(bytes_of(text), block);
      std::string out(size, '#');
      ASSERT_EQ(
          error_of(snappy_decompress(bytes_of(block), std::as_writable_bytes(std::span(out)))), "");
      ASSERT_EQ(out, text);
      if (letters == 1 && size > 300) {
        EXPECT_LT(block.size(), size / 10);
      }
    }
  }
}

TEST(Snappy, DamagedBlocksAreRefusedOrYieldTheLength) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "row " + std::to_string(i % 7);
  std::string block;
  snappy_compress(bytes_of(text), block);
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    std::string damaged = block;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << (bit % 8));
    std::vector<std::byte> out(text.size());
    static_cast<void>(snappy_decompress(bytes_of(damaged), out).ok());
    static_cast<void>(snappy_decompress(bytes_of(damaged).first(bit / 8), out).ok());
  }
}

TEST(Codec, UnknownOnesAreNamed) {
  std::byte out[4];
  EXPECT_THAT(error_of(decompress(Codec::kBrotli, bytes_of("1234"), out)),
              HasSubstr("compressed with brotli (codec 4); write it again with zstd"));
}

TEST(Codec, WrongLengthsAreRefused) {
  for (const Codec codec : {Codec::kNone, Codec::kSnappy, Codec::kZstd}) {
    std::string packed;
    ASSERT_EQ(error_of(compress(codec, bytes_of("twelve bytes"), packed)), "");
    for (const size_t size : {0, 11, 13}) {
      std::vector<std::byte> out(size);
      EXPECT_NE(error_of(decompress(codec, bytes_of(packed), out)), "") << size;
    }
  }
}

// ---- hybrid ----

TEST(Hybrid, ReadsTheExampleOfTheFormat) {
  // The numbers 0 to 7 with three bits each, from the description of the format; then 4 x 5.
  const std::string stream("\x03\x88\xc6\xfa\x08\x05", 6);
  std::vector<uint32_t> out(12);
  EXPECT_EQ(error_of(decode_hybrid(bytes_of(stream), 3, out)), "");
  EXPECT_THAT(out, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 5, 5, 5, 5));
}

TEST(Hybrid, RoundTripsEveryWidth) {
  std::mt19937 random(2);
  for (int bits = 1; bits <= 32; ++bits) {
    std::vector<uint32_t> numbers;
    while (numbers.size() < 2000) {
      const uint32_t number = static_cast<uint32_t>(random()) >> (32 - bits);
      numbers.insert(numbers.end(), random() % 3 == 0 ? random() % 40 : 1, number);
    }
    std::string stream;
    HybridEncoder encoder(bits, stream);
    for (size_t i = 0; i < numbers.size();) {
      size_t end = i;
      while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
      encoder.add(numbers[i], end - i);
      i = end;
    }
    encoder.finish();
    std::vector<uint32_t> out(numbers.size());
    ASSERT_EQ(error_of(decode_hybrid(bytes_of(stream), bits, out)), "");
    ASSERT_EQ(out, numbers) << bits;
  }
}

TEST(Hybrid, ShortStreamsAreRefused) {
  std::vector<uint32_t> out(100);
  EXPECT_THAT(error_of(decode_hybrid({}, 3, out)), HasSubstr("end early"));
  EXPECT_THAT(error_of(decode_hybrid(bytes_of("\x03\x88\xc6\xfa"), 3, out)),
              HasSubstr("end early"));
  EXPECT_THAT(error_of(decode_hybrid(bytes_of("\x03"), 33, out)), HasSubstr("33 bits"));
  EXPECT_THAT(error_of(decode_hybrid(bytes_of("\xc8\x01\x08"), 3, out)), HasSubstr("the value 8"));
}

TEST(Levels, OneRunIsNotSpread) {
  std::vector<uint8_t> levels(50, 9);
  const auto uniform = decode_levels(bytes_of("\x64\x01"), 1, levels);
  ASSERT_TRUE(uniform.ok());
  EXPECT_TRUE(*uniform);
  EXPECT_EQ(levels[0], 1);
}

// ---- delta ----

TEST(Delta, ReadsTheExampleOfTheFormat) {
  // 7, 5, 3, 1, 2, 3, 4, 5 in one block of 128 with 4 miniblocks; the first has two bits.
  const std::string head("\x80\x01\x04\x08\x0e\x03\x02\0\0\0", 10);
  const std::string stream = head + std::string("\xc0\x3f\0\0\0\0\0\0", 8);
  const auto deltas = decode_deltas(bytes_of(stream), 8);
  ASSERT_TRUE(deltas.ok()) << deltas.error().message();
  EXPECT_THAT(deltas->values, ElementsAre(7, 5, 3, 1, 2, 3, 4, 5));
  EXPECT_EQ(deltas->size_bytes, stream.size());
  EXPECT_FALSE(decode_deltas(bytes_of(stream).first(14), 8).ok());
  EXPECT_FALSE(decode_deltas(bytes_of(stream), 9).ok());
}

// ---- schema ----

SchemaElement group(std::string name, int32_t children, Repetition repetition,
                    Meaning meaning = Meaning::kNone) {
  return {.type = {},
          .repetition = repetition,
          .name = std::move(name),
          .child_count = children,
          .meaning = meaning};
}

SchemaElement leaf(std::string name, PhysicalType type, Repetition repetition) {
  return {.type = type, .repetition = repetition, .name = std::move(name)};
}

TEST(Schema, ListsOfTwoAndThreeLevelsAreColumns) {
  const auto columns = columns_of({
      group("schema", 4, Repetition::kRequired),
      leaf("bare", PhysicalType::kInt32, Repetition::kRepeated),
      group("two", 1, Repetition::kOptional, Meaning::kList),
      leaf("item", PhysicalType::kDouble, Repetition::kRepeated),
      group("three", 1, Repetition::kOptional, Meaning::kList),
      group("list", 1, Repetition::kRepeated),
      leaf("element", PhysicalType::kFloat, Repetition::kOptional),
      leaf("x", PhysicalType::kInt64, Repetition::kOptional),
  });
  ASSERT_TRUE(columns.ok());
  ASSERT_EQ(columns->size(), 4u);
  const std::vector<std::string> names = {"bare", "two", "three", "x"};
  const std::vector<int> definition_max = {1, 2, 3, 1};
  const std::vector<int> repeated_at = {1, 2, 2, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*columns)[i].name, names[i]);
    EXPECT_EQ((*columns)[i].definition_max, definition_max[i]);
    EXPECT_EQ((*columns)[i].repeated_at, repeated_at[i]);
    EXPECT_EQ((*columns)[i].is_list, i < 3);
    EXPECT_FALSE((*columns)[i].refusal);
  }
}

TEST(Schema, OnlyATreeIsAccepted) {
  const auto too_few = columns_of({group("schema", 2, Repetition::kRequired),
                                   leaf("x", PhysicalType::kInt32, Repetition::kRequired)});
  ASSERT_FALSE(too_few.ok());
  EXPECT_THAT(too_few.error().message(), HasSubstr("ends early"));
  const auto too_many = columns_of({group("schema", 1, Repetition::kRequired),
                                    leaf("x", PhysicalType::kInt32, Repetition::kRequired),
                                    leaf("y", PhysicalType::kInt32, Repetition::kRequired)});
  EXPECT_FALSE(too_many.ok());
  EXPECT_FALSE(columns_of({}).ok());
}

}  // namespace
}  // namespace millrace::format::parquet
