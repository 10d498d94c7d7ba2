#include "store/pack/piece_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/numbers/counter_random.h"
#include "store/pack/packer.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

std::string text_of(const Piece& piece) {
  return {reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()};
}

// Three blocks and a little, which compress.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < (3 << 20) + 1000; ++i) text += fmt::format("line {}\n", i);
  return text;
}

class PackPiecesTest : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    put_file(path("source/long"), text_);
    put_file(path("source/raw"), "0123456789");
    put_file(path("source/empty"), "");
    PackOptions options{.source = path("source"), .directory = path("packs")};
    options.partition_count = 1;
    pack_files(options);
  }

  fs::path path(std::string_view name) const { return top_ / name; }
  // Changes a byte in the middle of a member.
  void damage(const std::string& name) const {
    const auto reader = PackReader::open(path("packs"));
    ASSERT_TRUE(reader.ok());
    const wire::CatalogueEntry entry = reader->catalogue().entry(*reader->catalogue().find(name));
    std::fstream file(reader->partition_path(0), std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(entry.offset_bytes + entry.packed_bytes / 2);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::string text_ = long_text();
};

TEST_F(PackPiecesTest, GivesAnyPieceOfRawAndCompressedFiles) {
  const auto reader = PackReader::open(path("packs"));
  ASSERT_TRUE(reader.ok());
  const auto pieces = make_pack_pieces(*reader);
  const auto read = [&](const char* name, uint64_t offset, size_t size) {
    const auto piece = pieces->read(*reader->catalogue().find(name), offset, size);
    EXPECT_TRUE(piece.ok());
    return piece.ok() ? text_of(*piece) : "";
  };
  EXPECT_EQ(read("raw", 2, 3), "234");
  EXPECT_EQ(read("raw", 8, 100), "89");
  EXPECT_EQ(read("raw", 10, 1), "");
  EXPECT_EQ(read("empty", 0, 1), "");
  constexpr size_t kBlock = 1 << 20;
  for (const size_t offset : {size_t{0}, kBlock - 1, kBlock, 2 * kBlock + 5, text_.size() - 1}) {
    for (const size_t size : {size_t{1}, kBlock, 3 * kBlock}) {
      EXPECT_EQ(read("long", offset, size), text_.substr(offset, size)) << offset << " " << size;
    }
  }
  EXPECT_EQ(read("long", text_.size(), 1), "");
}

TEST_F(PackPiecesTest, ADamagedFileNeverGivesAByte) {
  damage("long");
  damage("raw");
  const auto reader = PackReader::open(path("packs"));
  ASSERT_TRUE(reader.ok());
  const auto pieces = make_pack_pieces(*reader);
  for (const char* name : {"long", "raw", "long", "raw"}) {
    const auto piece = pieces->read(*reader->catalogue().find(name), 0, 1);
    ASSERT_FALSE(piece.ok()) << name;
    EXPECT_THAT(piece.error().message(), HasSubstr("in part-00000.pack at byte "));
  }
}

TEST_F(PackPiecesTest, ThreadsReadTheSameFile) {
  const auto reader = PackReader::open(path("packs"));
  ASSERT_TRUE(reader.ok());
  const auto pieces = make_pack_pieces(*reader);
  const uint32_t index = *reader->catalogue().find("long");
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      CounterRandom random(t, 0);
      for (int i = 0; i < 50; ++i) {
        const size_t offset = random.next() % text_.size();
        const auto piece = pieces->read(index, offset, 100'000);
        ASSERT_TRUE(piece.ok());
        EXPECT_EQ(text_of(*piece), text_.substr(offset, 100'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::store
