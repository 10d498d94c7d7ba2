#include <gmock/gmock.h>

#include <thread>

#include "base/io/file.h"
#include "base/io/gzip.h"
#include "data/testing/source_contract.h"
#include "format/file_source.h"
#include "format/records/tfrecord.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::SampleId;
using testing::HasSubstr;

class TfrecordGzipTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto gzip = GzipWriter::create(1);
    if (!gzip.ok()) GTEST_SKIP() << gzip.error().message();
    for (int file = 0; file < 3; ++file) {
      paths_.emplace_back(fmt::format("{}.tfrecord.gz", file));
      const auto writer = *(*open_format("tfrecord_gzip"))->create(*engine_, paths_.back());
      for (int i = 0; i <= file; ++i) {
        const std::string text = fmt::format("{}/{}{}", file, i, std::string(1000, 'x'));
        const Field field = bytes_field("text", bytes_of(text));
        ASSERT_TRUE(writer->add("k", std::span(&field, 1)).ok());
        samples_.push_back(frame_tfrecord(bytes_of(*make_example(std::span(&field, 1)))));
      }
      ASSERT_TRUE(writer->finish().ok());
    }
  }

  Result<Samples> open(uint64_t inflated_bytes_max = 1 << 20) {
    return open_samples({.format = "tfrecord_gzip",
                         .format_options = {.inflated_bytes_max = inflated_bytes_max},
                         .paths = paths_,
                         .engine = engine_});
  }

  std::string content(const std::string& path) {
    const auto reader = *engine_->open(path);
    std::string bytes(*reader->size_bytes(), '\0');
    EXPECT_TRUE(reader->read_at(0, std::as_writable_bytes(std::span(bytes))).ok());
    return bytes;
  }

  void put(const std::string& path, std::string_view bytes) {
    const auto writer = *engine_->create(path);
    ASSERT_TRUE(writer->write_at(0, bytes_of(bytes)).ok());
    ASSERT_TRUE(writer->close().ok());
  }

  std::shared_ptr<io::MemoryEngine> engine_ = std::make_shared<io::MemoryEngine>();
  std::vector<std::filesystem::path> paths_;
  std::vector<std::string> samples_;
};

TEST_F(TfrecordGzipTest, KeepsTheContractOfSources) {
  // All files fit; only the largest does.
  for (const uint64_t inflated_bytes_max : {1 << 20, 3200}) {
    const auto opened = open(inflated_bytes_max);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    const Status status = data::check_source({opened->source, samples_});
    EXPECT_TRUE(status.ok()) << status.error().message();
  }
}

TEST_F(TfrecordGzipTest, ManyThreadsShareLittleMemory) {
  const auto opened = *open(3200);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      data::Buffer room;
      for (size_t i = 0; i < 60; ++i) {
        const size_t sample = (i + t) % samples_.size();
        const auto bytes = opened.source->read(SampleId{sample}, room);
        ASSERT_TRUE(bytes.ok());
        ASSERT_EQ(text_of(*bytes), samples_[sample]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TfrecordGzipTest, HasTheFieldsOfExamples) {
  const auto opened = *open();
  data::Buffer room;
  SampleFields fields;
  ASSERT_TRUE(opened.format->split(*opened.source->read(SampleId{1}, room), fields).ok());
  EXPECT_THAT(std::string(text_of(fields.find("text")->array.bytes)), HasSubstr("1/0xxx"));
  EXPECT_EQ(opened.source->name(SampleId{2}), "1.tfrecord.gz: record 1");
  EXPECT_EQ(opened.source->group_count(), 3u);
}

TEST_F(TfrecordGzipTest, NoticesEveryBitThatChangesTheGoldenFile) {
  const std::string whole = *read_file("tests/golden/samples.tfrecord.gz");
  paths_ = {"x.tfrecord.gz"};
  put("x.tfrecord.gz", whole);
  const auto original = *open();
  ASSERT_EQ(original.source->sample_count(), 3u);
  // The header's time, flags and system (bytes 4 to 9) mean nothing for the content.
  for (size_t at = size_t{10} * 8; at < whole.size() * 8; ++at) {
    std::string flipped = whole;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    put("x.tfrecord.gz", flipped);
    const auto opened = open();
    if (!opened.ok()) continue;
    // A few bits fill the last byte of the compressed data and mean nothing.
    data::Buffer room, original_room;
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(text_of(*opened->source->read(SampleId{i}, room)),
                text_of(*original.source->read(SampleId{i}, original_room)))
          << "bit " << at;
    }
  }
}

TEST_F(TfrecordGzipTest, DamageIsNamed) {
  const std::string whole = content("2.tfrecord.gz");
  put("2.tfrecord.gz", whole.substr(0, whole.size() - 5));
  EXPECT_THAT(open().error().message(), HasSubstr("2.tfrecord.gz: the compressed data ends early"));
  put("2.tfrecord.gz", "not gzip");
  EXPECT_THAT(open().error().message(), HasSubstr("2.tfrecord.gz: not gzip, or damaged"));
  put("2.tfrecord.gz", whole);
  EXPECT_THAT(open(1500).error().message(), HasSubstr("inflates to more than 1500 bytes"));
}

TEST_F(TfrecordGzipTest, AFileThatChangedIsNoticed) {
  const auto opened = *open(3200);  // the first two files do not stay in memory with the third
  data::Buffer room;
  put("0.tfrecord.gz", content("1.tfrecord.gz"));
  for (uint64_t i = 1; i < 6; ++i) ASSERT_TRUE(opened.source->read(SampleId{i}, room).ok());
  const auto sample = opened.source->read(SampleId{0}, room);
  ASSERT_FALSE(sample.ok());
  EXPECT_THAT(sample.error().message(), HasSubstr("0.tfrecord.gz: was written to or replaced"));
}

TEST_F(TfrecordGzipTest, TheFormatTfrecordSaysWhatToUse) {
  EXPECT_THAT((*open_format("tfrecord"))->index(*engine_, "0.tfrecord.gz").error().message(),
              HasSubstr("open it with the format tfrecord_gzip"));
  EXPECT_EQ(*format_of("x.tfrecord.gz"), "tfrecord_gzip");
}

}  // namespace
}  // namespace millrace::format
