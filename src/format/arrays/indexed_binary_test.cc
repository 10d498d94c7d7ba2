#include <gmock/gmock.h>

#include "format/format.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class IndexedBinaryTest : public testing::Test {
 protected:
  void put(const std::string& path, std::string_view content) {
    const auto writer = *engine_.create(path);
    ASSERT_TRUE(writer->write_at(0, bytes_of(content)).ok());
    ASSERT_TRUE(writer->close().ok());
  }

  Result<data::FileSamples> index(const std::vector<uint64_t>& offsets,
                                  const std::vector<uint64_t>& sizes) {
    put("a", "0123456789");
    put("a.off.idx", text_of(std::as_bytes(std::span(offsets))));
    put("a.sz.idx", text_of(std::as_bytes(std::span(sizes))));
    return (*open_format("indexed_binary"))->index(engine_, "a");
  }

  io::MemoryEngine engine_;
};

TEST_F(IndexedBinaryTest, EqualSamplesTakeNoMemory) {
  const auto samples = *index({0, 3, 6}, {3, 3, 3});
  EXPECT_EQ(samples.kind, data::FileSamples::Kind::kRecords);
  EXPECT_EQ(samples.record_bytes, 3u);
  EXPECT_EQ(samples.record_count, 3u);
  EXPECT_TRUE(samples.spans.empty());
}

TEST_F(IndexedBinaryTest, OtherSamplesAreListed) {
  EXPECT_THAT(index({0, 3, 6}, {3, 3, 4})->spans,
              ElementsAre(data::Span{0, 3}, data::Span{3, 3}, data::Span{6, 4}));
  // DLIO begins again at 0 after each of its buffers.
  EXPECT_THAT(index({0, 3, 0, 3}, {3, 3, 3, 3})->spans,
              ElementsAre(data::Span{0, 3}, data::Span{3, 3}, data::Span{0, 3}, data::Span{3, 3}));
  EXPECT_THAT(index({0, 0}, {0, 0})->spans, ElementsAre(data::Span{0, 0}, data::Span{0, 0}));
  EXPECT_EQ(index({}, {})->count(), 0u);
}

TEST_F(IndexedBinaryTest, TheTwoIndexesAreCompared) {
  EXPECT_THAT(index({0, 3}, {3}).error().message(),
              HasSubstr("2 offsets, but its .sz.idx file has 1"));
  EXPECT_THAT(index({0, 8}, {3, 3}).error().message(),
              HasSubstr("sample 1 has 3 bytes at byte 8, but the data file ends at 10"));
  EXPECT_FALSE(index({UINT64_MAX}, {2}).ok());
  EXPECT_FALSE(index({2}, {UINT64_MAX}).ok());
  put("a.off.idx", "123");
  EXPECT_THAT((*open_format("indexed_binary"))->index(engine_, "a").error().message(),
              HasSubstr("its .off.idx file has 3 bytes, which is not a multiple of 8"));
}

TEST_F(IndexedBinaryTest, IsReadAsItWasWritten) {
  for (const char* name : {"indexed_binary", "mmap_indexed_binary"}) {
    const auto format = *open_format(name);
    const auto writer = *format->create(engine_, "b");
    for (const std::string_view text : {"abc", "", "de"}) {
      const Field field = bytes_field("data", bytes_of(text));
      ASSERT_TRUE(writer->add("k", std::span(&field, 1)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_THAT(format->index(engine_, "b")->spans,
                ElementsAre(data::Span{0, 3}, data::Span{3, 0}, data::Span{3, 2}));
  }
}

}  // namespace
}  // namespace millrace::format
