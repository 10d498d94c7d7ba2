#include "trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "trace/event_samples.h"
#include "wire/trace_file.h"

namespace millrace::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Events of every shape, with values no program would have.
EventColumns strange_events(size_t count, uint64_t seed, bool with_tags) {
  EventColumns columns;
  Random random(seed);
  const uint64_t extremes[] = {0, 1, 4096, ~uint64_t{0}, uint64_t{1} << 63, wire::kNoOffset - 1};
  const auto any = [&] { return random.below(3) == 0 ? extremes[random.below(6)] : random.next(); };
  for (size_t i = 0; i < count; ++i) {
    push(columns, {.begin_ns = any() >> random.below(64),
                   .duration_ns = any() >> random.below(64),
                   .call = static_cast<wire::Call>(random.below(65536)),
                   .file = static_cast<NameIndex>(random.below(8)),
                   .offset = any(),
                   .size = any(),
                   .result = static_cast<int64_t>(any()),
                   .error = static_cast<uint16_t>(random.below(65536)),
                   .thread = static_cast<ThreadIndex>(random.below(2)),
                   .detail = static_cast<uint32_t>(random.next()),
                   .other_file = static_cast<NameIndex>(random.below(8)),
                   .other_offset = any(),
                   .flags = static_cast<uint8_t>(random.below(256))});
    if (!with_tags) continue;
    columns.tag_begin.push_back(static_cast<uint32_t>(columns.tags.size()));
    for (uint64_t left = random.below(4); left > 0; --left) {
      columns.tags.push_back(
          {static_cast<NameIndex>(random.below(8)), wire::TagKind::kInteger, any()});
    }
  }
  if (with_tags) columns.tag_begin.push_back(static_cast<uint32_t>(columns.tags.size()));
  return columns;
}

void expect_equal(const EventColumns& a, const EventColumns& b) {
  EXPECT_TRUE(a.begin_ns == b.begin_ns);
  EXPECT_TRUE(a.duration_ns == b.duration_ns);
  EXPECT_TRUE(a.call == b.call);
  EXPECT_TRUE(a.file == b.file);
  EXPECT_TRUE(a.offset == b.offset);
  EXPECT_TRUE(a.size == b.size);
  EXPECT_TRUE(a.result == b.result);
  EXPECT_TRUE(a.error == b.error);
  EXPECT_TRUE(a.thread == b.thread);
  EXPECT_TRUE(a.detail == b.detail);
  EXPECT_TRUE(a.other_file == b.other_file);
  EXPECT_TRUE(a.other_offset == b.other_offset);
  EXPECT_TRUE(a.flags == b.flags);
  EXPECT_TRUE(a.tag_begin == b.tag_begin);
  ASSERT_EQ(a.tags.size(), b.tags.size());
  for (size_t i = 0; i < a.tags.size(); ++i) {
    EXPECT_EQ(a.tags[i].key, b.tags[i].key);
    EXPECT_EQ(a.tags[i].value, b.tags[i].value);
  }
}

class TraceTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_->path() / name).string(); }

  // A writer with one process of two threads, and names n1 to n1000.
  TraceWriter new_writer(const std::string& file) {
    auto writer = TraceWriter::create(path(file), 1'700'000'000'000'000'000);
    EXPECT_TRUE(writer.ok()) << writer.error().message();
    writer->add_session({.host = "node1", .boot_id = "b"});
    for (int i = 1; i <= 1000; ++i) writer->add_name("n" + std::to_string(i));
    const ProcessIndex process = writer->add_process({.pid = 77, .command_line = NameIndex{1}});
    writer->add_thread({process, 77});
    writer->add_thread({process, 78});
    return *std::move(writer);
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
};

TEST_F(TraceTest, WhatWasWrittenIsReadBack) {
  for (const bool with_tags : {false, true}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{47}, size_t{3000}}) {
      TraceWriter writer = new_writer("t.mrt");
      const EventColumns events = strange_events(count, count, with_tags);
      ASSERT_TRUE(writer.append(events).ok());
      ASSERT_TRUE(writer.finish().ok());
      const auto trace = Trace::open(path("t.mrt"));
      ASSERT_TRUE(trace.ok()) << trace.error().message();
      EXPECT_THAT(trace->problems(), IsEmpty());
      EXPECT_EQ(trace->event_count(), count);
      EXPECT_EQ(trace->origin_wall_ns(), 1'700'000'000'000'000'000);
      ASSERT_EQ(trace->blocks().size(), 1u);
      EventColumns back;
      const Status status = trace->read_block(0, back);
      ASSERT_TRUE(status.ok()) << status.error().message();
      EventColumns expected = events;
      if (with_tags && events.tags.empty()) expected.tag_begin.clear();
      expect_equal(expected, back);
    }
  }
}

TEST_F(TraceTest, RealisticEventsSurviveToo) {
  for (const EventColumns& events :
       {random_preads(70'000), sequential_reads(5000), small_files(5000, 900), regions(5000)}) {
    TraceWriter writer = new_writer("t.mrt");
    ASSERT_TRUE(writer.append(events).ok());
    ASSERT_TRUE(writer.finish().ok());
    const auto trace = Trace::open(path("t.mrt"));
    ASSERT_TRUE(trace.ok()) << trace.error().message();
    EventColumns all;
    EventColumns block;
    size_t first = 0;
    for (size_t i = 0; i < trace->blocks().size(); ++i) {
      ASSERT_TRUE(trace->read_block(i, block).ok());
      for (size_t event = 0; event < block.size_events(); ++event) {
        EXPECT_EQ(block.begin_ns[event], events.begin_ns[first + event]);
        EXPECT_EQ(block.offset[event], events.offset[first + event]);
        EXPECT_EQ(block.file[event], events.file[first + event]);
        EXPECT_EQ(block.size[event], events.size[first + event]);
      }
      first += block.size_events();
    }
    EXPECT_EQ(first, events.size_events());
  }
}

TEST_F(TraceTest, TablesAreReadBack) {
  TraceWriter writer = new_writer("t.mrt");
  writer.add_loss({.process = ProcessIndex{0},
                   .events = 5,
                   .names = 1,
                   .first_ns = 10,
                   .last_ns = 20,
                   .error = 28});
  ASSERT_TRUE(writer.finish().ok());
  const auto trace = Trace::open(path("t.mrt"));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->sessions().size(), 1u);
  EXPECT_EQ(trace->sessions()[0].host, "node1");
  ASSERT_EQ(trace->processes().size(), 1u);
  EXPECT_EQ(trace->processes()[0].pid, 77u);
  EXPECT_EQ(trace->name(trace->processes()[0].command_line), "n1");
  EXPECT_EQ(trace->threads().size(), 2u);
  ASSERT_EQ(trace->losses().size(), 1u);
  EXPECT_EQ(trace->losses()[0].events, 5u);
  EXPECT_EQ(trace->losses()[0].error, 28);
  EXPECT_EQ(trace->names().size(), 1001u);
}

TEST_F(TraceTest, AnUnfinishedFileIsReadUpToItsLastBlock) {
  TraceWriter writer = new_writer("t.mrt");
  ASSERT_TRUE(writer.append(random_preads(100)).ok());
  const auto trace = Trace::open(path("t.mrt.partial"));
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 100u);
}

TEST_F(TraceTest, ColumnsOfUnequalLengthAreRefused) {
  TraceWriter writer = new_writer("t.mrt");
  EventColumns events = random_preads(10);
  events.detail.pop_back();
  const Status status = writer.append(events);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("9 entries where there are 10 events"));
}

}  // namespace
}  // namespace millrace::trace
