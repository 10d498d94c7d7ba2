#include "trace/read/packed_trace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash/crc32c.h"
#include "base/io/temporary_directory.h"
#include "trace/pack/packed_writer.h"
#include "trace/testing/event_samples.h"

namespace millrace::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A small file of three event blocks, and the sum of their events' begins.
class PackedTraceTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = (directory_->path() / "t.mrt").string();
    auto file = File::open(path, O_RDWR | O_CREAT);
    ASSERT_TRUE(file.ok());
    auto writer = PackedWriter::create(*std::move(file), 0, 0);
    ASSERT_TRUE(writer.ok());
    writer->add_session({});
    for (int i = 1; i <= 70; ++i) writer->add_name("file " + std::to_string(i));
    const ProcessIndex process = writer->add_process({});
    writer->add_thread({process, 1});
    for (size_t block = 0; block < 3; ++block) {
      ASSERT_TRUE(writer->append(regions(40), process).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
    bytes_ = *read_file(path);
  }

  struct Reading {
    bool opened = false;
    uint64_t events = 0;
    uint64_t sum = 0;
    bool has_problems = false;
  };

  static Reading read(std::string_view bytes) {
    Reading reading;
    const auto file = PackedTrace::open(ByteSource(bytes_of(bytes)), "t");
    if (!file.ok()) {
      reading.has_problems = true;
      return reading;
    }
    reading.opened = true;
    reading.has_problems = !file->problems().empty() || !file->has_index();
    EventColumns columns;
    for (size_t i = 0; i < file->event_blocks().size(); ++i) {
      const Status status = file->read(i, columns);
      if (!status.ok()) {
        reading.has_problems = true;
        continue;
      }
      reading.events += columns.size_events();
      for (const uint64_t begin : columns.begin_ns) reading.sum += begin;
    }
    return reading;
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  std::string bytes_;
};

TEST_F(PackedTraceTest, AnIntactFileIsReadWithoutProblems) {
  const Reading reading = read(bytes_);
  EXPECT_TRUE(reading.opened);
  EXPECT_EQ(reading.events, 120u);
  EXPECT_FALSE(reading.has_problems);
}

TEST_F(PackedTraceTest, EveryFlippedBitIsDetectedAndNothingWrongIsRead) {
  const Reading whole = read(bytes_);
  const uint64_t block_sum = whole.sum / 3;
  for (size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    bytes_[bit / 8] = static_cast<char>(bytes_[bit / 8] ^ (1 << (bit % 8)));
    const Reading reading = read(bytes_);
    EXPECT_TRUE(reading.has_problems) << "bit " << bit;
    EXPECT_EQ(reading.sum, block_sum * (reading.events / 40)) << "bit " << bit;
    bytes_[bit / 8] = static_cast<char>(bytes_[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST_F(PackedTraceTest, AFileCutAnywhereIsReadUpToTheCut) {
  uint64_t events_before = 0;
  for (size_t length = 0; length < bytes_.size(); ++length) {
    const Reading reading = read(std::string_view(bytes_).substr(0, length));
    EXPECT_TRUE(reading.has_problems) << length;
    EXPECT_GE(reading.events, events_before) << length;
    events_before = reading.events;
  }
  EXPECT_EQ(events_before, 120u);
}

TEST_F(PackedTraceTest, BlocksAfterDamageAreFound) {
  const auto whole = PackedTrace::open(ByteSource(bytes_of(bytes_)), "t");
  const PackedBlock second = whole->event_blocks()[1];
  std::string damaged = bytes_.substr(0, bytes_.size() - 24);  // without the trailer
  for (size_t i = 0; i < sizeof(wire::TraceBlockHeader); ++i) damaged[second.offset + i] = '\x55';
  const auto file = PackedTrace::open(ByteSource(bytes_of(damaged)), "t");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->event_blocks().size(), 2u);
  EXPECT_THAT(file->problems().front(), HasSubstr("t: the block at byte"));
}

TEST_F(PackedTraceTest, AnotherVersionIsRefusedWithAdvice) {
  wire::TraceFileHeader header;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  header.version = 9;
  header.crc32c = crc32c(std::as_bytes(std::span(&header, 1)).first(60));
  std::memcpy(bytes_.data(), &header, sizeof(header));
  const auto file = PackedTrace::open(ByteSource(bytes_of(bytes_)), "old.mrt");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message(),
            "old.mrt: was written in version 9; this build reads 1. Use the "
            "millrace that wrote it, or a newer one");
}

// make_recording.py wrote tests/golden/trace.mrt, from the format's page alone.
TEST(PackedFileGolden, ThisBuildReadsAFileWrittenFromTheFormatsPage) {
  auto source = ByteSource::from_file("tests/golden/trace.mrt");
  ASSERT_TRUE(source.ok()) << source.error().message();
  const auto file = PackedTrace::open(*std::move(source), "trace.mrt");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_THAT(file->problems(), IsEmpty());
  EventColumns columns;
  const Status status = file->read(0, columns);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_THAT(columns.begin_ns, ElementsAre(1500, 2300, 3200, 900));
  EXPECT_THAT(columns.duration_ns, ElementsAre(700, 800, 900, 4000));
  EXPECT_THAT(columns.offset, ElementsAre(0, 4096, 1 << 20, 7));
  EXPECT_THAT(columns.size, ElementsAre(4096, 4096, 4096, 1));
  EXPECT_THAT(columns.result, ElementsAre(4096, 4096, -1, 0));
  EXPECT_THAT(columns.error, ElementsAre(0, 0, 5, 0));
  EXPECT_THAT(columns.flags, ElementsAre(0, 0, 16, 0));
  EXPECT_EQ(file->tables().names[static_cast<size_t>(columns.file[2])], "dataset/a.bin");
  EXPECT_EQ(file->tables().names[static_cast<size_t>(columns.file[3])], "fetch");
  ASSERT_EQ(columns.tags.size(), 1u);
  EXPECT_EQ(columns.tags[0].value, 12u);
  EXPECT_EQ(file->tables().processes[0].process.exit_code, 3);
}

// Payloads with correct checksums and wrong contents, as in a hostile file.
TEST_F(PackedTraceTest, WrongPayloadsWithCorrectChecksumsNeverCrash) {
  const auto whole = PackedTrace::open(ByteSource(bytes_of(bytes_)), "t");
  const PackedBlock block = whole->event_blocks()[0];
  const size_t start = block.offset + sizeof(wire::TraceBlockHeader);
  const std::string payload = bytes_.substr(start, block.header.payload_bytes);
  BlockDecoder decoder;
  EventColumns columns;
  size_t refused = 0;
  for (size_t i = 0; i < payload.size(); ++i) {
    for (const char value : {'\x00', '\xff', '\x7f', '\x80', static_cast<char>(payload[i] + 1)}) {
      std::string changed = payload;
      changed[i] = value;
      if (!decoder.decode(bytes_of(changed), block.header.count, 0, columns).ok()) ++refused;
    }
    EXPECT_FALSE(decoder.decode(bytes_of(payload).first(i), block.header.count, 0, columns).ok());
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace millrace::trace
