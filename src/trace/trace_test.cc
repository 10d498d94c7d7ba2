#include "trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "trace/testing/event_samples.h"
#include "wire/trace_file.h"

namespace millrace::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Events of every shape, with values that no program would produce.
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

TEST_F(TraceTest, ReadsBackWhatWasWritten) {
  for (const bool with_tags : {false, true}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{47}, size_t{3000}}) {
      std::filesystem::remove(path("t.mrt"));
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

TEST_F(TraceTest, ReadsBackRealisticEvents) {
  for (const EventColumns& events :
       {random_preads(70'000), sequential_reads(5000), small_files(5000, 900), regions(5000)}) {
    std::filesystem::remove(path("t.mrt"));
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

TEST_F(TraceTest, ReadsBackTables) {
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
  const auto trace = Trace::open(writer.partial_path());
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 100u);
}

TEST_F(TraceTest, AWriterLeavesFilesOfOthersAlone) {
  for (const char* name : {"t.mrt.partial", "u.mrt"}) std::ofstream(path(name)) << "mine";
  {
    TraceWriter writer = new_writer("t.mrt");
    ASSERT_TRUE(writer.append(random_preads(100)).ok());
  }
  TraceWriter other = new_writer("u.mrt");
  EXPECT_THAT(other.finish().error().message(), HasSubstr("cannot rename"));
  other = new_writer("v.mrt");
  ASSERT_TRUE(other.finish().ok());
  const auto entries = std::filesystem::directory_iterator(path(""));
  EXPECT_EQ(std::distance(entries, {}), 3);  // and no temporary one
  for (const char* name : {"t.mrt.partial", "u.mrt"}) EXPECT_EQ(*read_file(path(name)), "mine");
}

TEST_F(TraceTest, ColumnsOfUnequalLengthAreRefused) {
  TraceWriter writer = new_writer("t.mrt");
  EventColumns events = random_preads(10);
  events.detail.pop_back();
  const Status status = writer.append(events);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("9 entries for 10 events"));
}

// Writes one finished file of `count` events.
void write_events(TraceWriter writer, size_t count) {
  ASSERT_TRUE(writer.append(random_preads(count)).ok());
  ASSERT_TRUE(writer.finish().ok());
}

TEST_F(TraceTest, SeveralPathsAreReadAsOneTrace) {
  std::filesystem::create_directory(path("job"));
  write_events(new_writer("job/a.mrt"), 10);
  write_events(new_writer("job/b.mrt"), 20);
  write_events(new_writer("c.mrt"), 40);
  const auto trace = Trace::open_all({path("c.mrt"), path("job")});
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_THAT(trace->problems(), IsEmpty());
  EXPECT_EQ(trace->event_count(), 70u);
  EXPECT_EQ(trace->processes().size(), 3u);
  EXPECT_EQ(trace->names().size(), 1001u);
  EventColumns columns;
  for (size_t i = 0; i < trace->blocks().size(); ++i) {
    ASSERT_TRUE(trace->read_block(i, columns).ok());
    const auto thread = static_cast<size_t>(columns.thread[0]);
    EXPECT_EQ(trace->threads()[thread].process, trace->blocks()[i].process);
  }
}

TEST_F(TraceTest, APathGivenTwiceIsReadOnce) {
  std::filesystem::create_directory(path("job"));
  write_events(new_writer("job/a.mrt"), 10);
  std::filesystem::create_directory_symlink(path("job"), path("link"));
  const auto trace = Trace::open_all(
      {path("job/a.mrt"), path("job"), path("link/"), path("link/a.mrt"), path("job/../job")});
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 10u);
  const auto files = Trace::open_all({path("job/a.mrt"), path("link/a.mrt")});
  ASSERT_TRUE(files.ok()) << files.error().message();
  EXPECT_EQ(files->event_count(), 10u);
}

TEST_F(TraceTest, UnreadablePathsAreNamedAndTheRestIsUsed) {
  write_events(new_writer("good.mrt"), 10);
  std::filesystem::create_directory(path("job"));
  write_events(new_writer("job/whole.mrt"), 20);
  const std::string whole = *read_file(path("job/whole.mrt"));
  std::ofstream(path("job/cut.mrt")) << whole.substr(0, 20);
  std::ofstream(path("job/foreign.mrt")) << std::string(5000, 'x');
  std::ofstream(path("job/empty.mrt"));
  std::ofstream(path("job/notes.txt")) << "not part of a trace";
  std::filesystem::create_directory(path("nothing"));
  std::filesystem::create_directory(path("directory.mrt"));
  std::ofstream(path("notes.txt")) << std::string(5000, 'y');
  const auto trace =
      Trace::open_all({path("missing"), path("good.mrt"), path("job"), path("nothing"),
                       path("directory.mrt"), path("notes.txt"), path("job/missing.mrt")});
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 30u);
  EXPECT_THAT(trace->problems(),
              ElementsAre(HasSubstr("missing: no such file or directory"),
                          HasSubstr("job/cut.mrt: 20 bytes are too few"),
                          HasSubstr("job/empty.mrt: 0 bytes are too few"),
                          HasSubstr("job/foreign.mrt: this is not a packed trace"),
                          HasSubstr("nothing: contains no trace"),
                          HasSubstr("directory.mrt: contains no trace"),
                          HasSubstr("notes.txt: this is not a packed trace"),
                          HasSubstr("job/missing.mrt: no such file or directory")));
}

TEST_F(TraceTest, IfNothingCanBeUsedTheErrorGivesEveryReason) {
  std::ofstream(path("notes.mrt")) << std::string(5000, 'y');
  std::filesystem::create_directory(path("job"));
  std::ofstream(path("job/cut.mrt")) << "short";
  const auto trace = Trace::open_all({path("notes.mrt"), path("missing"), path("job")});
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message(), HasSubstr("notes.mrt: this is not a packed trace"));
  EXPECT_THAT(trace.error().message(), HasSubstr("missing: no such file"));
  EXPECT_THAT(trace.error().message(), HasSubstr("job/cut.mrt: 5 bytes are too few"));
  EXPECT_EQ(Trace::open_all({}).error().message(), "no trace is given");
}

TEST_F(TraceTest, PathsWithoutPermissionAreNamed) {
  write_events(new_writer("good.mrt"), 10);
  write_events(new_writer("secret.mrt"), 10);
  std::filesystem::create_directory(path("closed"));
  namespace fs = std::filesystem;
  fs::permissions(directory_->path(), fs::perms::all);
  fs::permissions(path("good.mrt"), fs::perms(0644));  // otherwise private to its user
  fs::permissions(path("secret.mrt"), fs::perms::none);
  fs::permissions(path("closed"), fs::perms::none);
  // Permissions do not apply to root, so the test drops its rights.
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const auto trace = Trace::open_all({path("good.mrt"), path("secret.mrt"), path("closed")});
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 10u);
  EXPECT_THAT(trace->problems(), ElementsAre(HasSubstr("secret.mrt: cannot open"),
                                             HasSubstr("closed: cannot list the directory")));
}

TEST_F(TraceTest, LevelsOfABlockAreKnownWithoutReadingIt) {
  TraceWriter writer = new_writer("t.mrt");
  EventColumns events = random_preads(300);
  ASSERT_TRUE(writer.append(events).ok());
  ASSERT_TRUE(writer.append(regions(300)).ok());
  events.call[7] = wire::Call::kFread;
  events.call[8] = static_cast<wire::Call>(0xff01);
  ASSERT_TRUE(writer.append(events).ok());
  ASSERT_TRUE(writer.finish().ok());
  const auto trace = Trace::open(path("t.mrt"));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->blocks().size(), 3u);
  EventColumns columns;
  for (size_t block = 0; block < 3; ++block) {
    ASSERT_TRUE(trace->read_block(block, columns).ok());
    uint32_t expected = 0;
    for (const wire::Call call : columns.call) {
      const auto level = static_cast<uint32_t>(wire::level_of(call));
      expected |= level < wire::kLevelCount ? 1u << level : 1u;
    }
    EXPECT_EQ(*trace->block_levels(block), expected);
  }
  EXPECT_EQ(*trace->block_levels(0), 1u << static_cast<unsigned>(wire::Level::kPosix));
}

TEST_F(TraceTest, LevelsOfADamagedBlockAreRefusedLikeItsEvents) {
  write_events(new_writer("t.mrt"), 500);
  std::string bytes = *read_file(path("t.mrt"));
  size_t place = 0;
  {
    const auto trace = Trace::open(path("t.mrt"));
    ASSERT_TRUE(trace.ok());
    // The first shape follows the header of the first block of events.
    wire::TraceBlockHeader header{};
    for (place = sizeof(wire::TraceFileHeader);; place += sizeof(header) + header.payload_bytes) {
      std::memcpy(&header, bytes.data() + place, sizeof(header));
      if (header.kind == wire::TraceBlockKind::kEvents) break;
    }
  }
  bytes[place + sizeof(wire::TraceBlockHeader) + 3] ^= 1;
  std::ofstream(path("t.mrt")) << bytes;
  const auto trace = Trace::open(path("t.mrt"));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->blocks().size(), 1u);
  const auto levels = trace->block_levels(0);
  ASSERT_FALSE(levels.ok());
  EventColumns columns;
  EXPECT_EQ(levels.error().message(), trace->read_block(0, columns).error().message());
  EXPECT_THAT(levels.error().message(), HasSubstr("its checksum does not match"));
}

}  // namespace
}  // namespace millrace::trace
