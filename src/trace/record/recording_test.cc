#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/io/mapped_file.h"
#include "base/io/temporary_directory.h"
#include "trace/testing/recorded_sample.h"
#include "trace/trace.h"

namespace millrace::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::Ring;
using wire::TraceSlot;

class RecordingTest : public testing::Test {
 protected:
  Trace open() {
    sample_.write_session();
    auto trace = Trace::open(directory_->path().string());
    EXPECT_TRUE(trace.ok()) << trace.error().message();
    return *std::move(trace);
  }

  static std::vector<uint64_t> begins(const Trace& trace) {
    std::vector<uint64_t> all;
    EventColumns columns;
    for (size_t i = 0; i < trace.blocks().size(); ++i) {
      const Status status = trace.read_block(i, columns);
      EXPECT_TRUE(status.ok()) << status.error().message();
      all.insert(all.end(), columns.begin_ns.begin(), columns.begin_ns.end());
    }
    return all;
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  RecordedSample sample_{directory_->path() / "node7-11111111"};
};

TEST_F(RecordingTest, EventsOfLogAndRingsAreReadOnce) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring in_log = RecordedSample::ring(0, 0, 42, 42);
  RecordedSample::fill(in_log, 1000, file, 3);
  Ring now = RecordedSample::ring(0, 1, 42, 42);
  RecordedSample::fill(now, 9000, file, 2);
  sample_.write_process("42-f4240", RecordedSample::process(42), {now}, {in_log});
  const Trace trace = open();
  EXPECT_THAT(trace.problems(), IsEmpty());
  EXPECT_THAT(begins(trace), ElementsAre(1000, 2000, 3000, 9000, 10000));
  EXPECT_EQ(trace.event_count(), 5u);
  ASSERT_EQ(trace.processes().size(), 1u);
  EXPECT_EQ(trace.processes()[0].pid, 42u);
  EXPECT_EQ(trace.sessions()[0].host, "node7");
  EXPECT_EQ(trace.sessions()[0].cores, 24u);
  EXPECT_EQ(trace.origin_wall_ns(), RecordedSample::kFirstWall);
  EventColumns columns;
  ASSERT_TRUE(trace.read_block(0, columns).ok());
  EXPECT_EQ(trace.name(columns.file[0]), "dataset/a");
  EXPECT_EQ(columns.duration_ns[0], 500u);
  EXPECT_EQ(columns.result[0], 4096);
  EXPECT_EQ(columns.offset[1], 4096u);
  EXPECT_EQ(*trace.block_levels(0), 1u << static_cast<unsigned>(wire::Level::kPosix));
}

TEST_F(RecordingTest, ASessionGivenWithItsDirectoryIsReadOnce) {
  Ring now = RecordedSample::ring(0, 1, 42, 42);
  RecordedSample::fill(now, 9000, sample_.name("dataset/a"), 2);
  sample_.write_process("42-f4240", RecordedSample::process(42), {now}, {});
  sample_.write_session();
  const std::string directory = directory_->path().string();
  const auto trace = Trace::open_all({directory + "/node7-11111111", directory});
  ASSERT_TRUE(trace.ok()) << trace.error().message();
  EXPECT_EQ(trace->event_count(), 2u);
}

TEST_F(RecordingTest, ARingThatWasAlreadyLoggedIsReadFromTheLog) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring in_log = RecordedSample::ring(0, 4, 42, 42);
  RecordedSample::fill(in_log, 1000, file, 3);
  Ring half_emptied = in_log;
  half_emptied.slots[0] = TraceSlot{};
  sample_.write_process("42-f4240", RecordedSample::process(42), {half_emptied}, {in_log});
  EXPECT_THAT(begins(open()), ElementsAre(1000, 2000, 3000));
}

TEST_F(RecordingTest, ATornChunkOfTheLogIsReadFromTheRing) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring ring = RecordedSample::ring(0, 4, 42, 42);
  RecordedSample::fill(ring, 1000, file, 3);
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring}, {ring}, 65000);
  const Trace trace = open();
  EXPECT_THAT(begins(trace), ElementsAre(1000, 2000, 3000));
  EXPECT_THAT(trace.problems(), IsEmpty());
}

TEST_F(RecordingTest, ATornChunkWithoutItsRingIsReadUpToTheTear) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring torn = RecordedSample::ring(0, 4, 42, 42);
  RecordedSample::fill(torn, 1000, file, 3);
  Ring later = RecordedSample::ring(0, 5, 42, 42);
  const size_t kept = sizeof(wire::RingHeader) + 2 * sizeof(TraceSlot) + 5;
  sample_.write_process("42-f4240", RecordedSample::process(42), {later}, {torn},
                        sizeof(Ring) - kept);
  const Trace trace = open();
  EXPECT_THAT(begins(trace), ElementsAre(1000, 2000));
  EXPECT_THAT(trace.problems(), ElementsAre(HasSubstr("ends in the middle of the ring at byte 0")));
}

TEST_F(RecordingTest, EmptySlotsAndOrphansAreSkipped) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring ring = RecordedSample::ring(0, 0, 42, 42);
  ring.slots[1] = RecordedSample::read_event(1000, file, 0);
  ring.slots[2].wide = {.tag = wire::SlotTag::kWide};  // its event was never finished
  ring.slots[5] = RecordedSample::read_event(2000, file, 0);
  ring.slots[6] = RecordedSample::read_event(3000, file, 0);
  ring.slots[6].record.slots = 3;  // claims slots of other events
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring}, {});
  const Trace trace = open();
  EXPECT_THAT(begins(trace), ElementsAre(1000, 2000));
  EXPECT_THAT(trace.problems(), ElementsAre(HasSubstr("1 broken events")));
}

TEST_F(RecordingTest, ExtensionSlotsFillTheirColumns) {
  const wire::NameId file = sample_.name("dataset/a");
  const wire::NameId other = sample_.name("dataset/b");
  const wire::NameId key = sample_.name("sample");
  Ring ring = RecordedSample::ring(0, 0, 42, 42);
  ring.slots[0] = RecordedSample::read_event(1000, file, 7);
  ring.slots[0].record.call = wire::Call::kCopyFileRange;
  ring.slots[0].record.slots = 3;
  ring.slots[0].record.flags = 0;
  ring.slots[1].wide = {.result = -1,
                        .size = uint64_t{5} << 32,
                        .duration_high = 1,
                        .detail = 77,
                        .reserved = 0,
                        .tag = wire::SlotTag::kWide,
                        .error = 28};
  ring.slots[2].other = {.offset = 99, .file = other, .tag = wire::SlotTag::kOther};
  ring.slots[3] = RecordedSample::read_event(5000, key, wire::kNoStep);
  ring.slots[3].record.call = wire::Call::kRegion;
  ring.slots[3].record.slots = 3;
  ring.slots[3].record.flags =
      static_cast<uint8_t>(wire::ResultForm::kZero) | wire::kFlagForeignOrigin;
  ring.slots[4].tags = {.value = {static_cast<uint64_t>(file), 12},
                        .key = {key, key},
                        .kind = {wire::TagKind::kText, wire::TagKind::kInteger},
                        .tag = wire::SlotTag::kTags};
  ring.slots[5].origin = {.process = 40, .thread = 41, .tag = wire::SlotTag::kOrigin};
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring}, {});
  const Trace trace = open();
  EventColumns columns;
  ASSERT_TRUE(trace.read_block(0, columns).ok());
  EXPECT_EQ(columns.result[0], -1);
  EXPECT_EQ(columns.size[0], uint64_t{5} << 32);
  EXPECT_EQ(columns.duration_ns[0], ((uint64_t{1} << 32) + 1000) / 2);
  EXPECT_EQ(columns.detail[0], 77u);
  EXPECT_EQ(columns.error[0], 28u);
  EXPECT_EQ(trace.name(columns.other_file[0]), "dataset/b");
  EXPECT_EQ(columns.other_offset[0], 99u);
  EXPECT_THAT(columns.tag_begin, ElementsAre(0, 0, 4));
  EXPECT_EQ(trace.name(static_cast<NameIndex>(columns.tags[0].value)), "dataset/a");
  EXPECT_EQ(columns.tags[1].value, 12u);
  EXPECT_EQ(trace.name(columns.tags[2].key), "origin_pid");
  EXPECT_EQ(columns.tags[3].value, 41u);
  EXPECT_EQ(columns.flags[1], wire::kFlagForeignOrigin);
}

// A program started by exec is another one. Each outside recording gets the inside recording that
// began in its time.
TEST_F(RecordingTest, RecordingsOfOneProgramFromInsideAndOutsideAreOneProcess) {
  const wire::NameId file = sample_.name("dataset/a");
  const auto page = [](wire::RecordedFrom from, uint64_t start_ticks, int32_t rank) {
    wire::ProcessPage made = RecordedSample::process(42);
    made.recorded_from = from;
    made.start_ticks = start_ticks;
    made.start_time = 7;
    made.rank = rank;
    made.exit_code = from == wire::RecordedFrom::kOutside ? 3 : 0;
    return made;
  };
  const auto ring_at = [&](uint64_t ns) {
    Ring ring = RecordedSample::ring(0, 0, 42, 42);
    ring.slots[0] = RecordedSample::read_event(ns, file, 0);
    return ring;
  };
  using wire::RecordedFrom;
  sample_.write_process("42-1", page(RecordedFrom::kOutside, 100, -1), {ring_at(1000)}, {});
  sample_.write_process("42-2", page(RecordedFrom::kInside, 110, 5), {ring_at(1100)}, {});
  sample_.write_process("42-3", page(RecordedFrom::kOutside, 200, -1), {ring_at(2000)}, {});
  sample_.write_process("42-4", page(RecordedFrom::kInside, 210, 6), {ring_at(2100)}, {});
  const Trace trace = open();
  ASSERT_EQ(trace.processes().size(), 2u);
  EXPECT_EQ(trace.processes()[0].rank, 5);
  EXPECT_EQ(trace.processes()[1].rank, 6);
  EXPECT_EQ(trace.processes()[1].exit_code, 3);
  EXPECT_EQ(trace.threads().size(), 2u);
  EXPECT_EQ(trace.event_count(), 4u);
}

TEST_F(RecordingTest, AVforkChildIsAProcessOfItsOwn) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring ring = RecordedSample::ring(0, 0, 42, 42);
  ring.slots[0] = RecordedSample::read_event(1000, file, 0);
  ring.slots[1].context = {.ticks = 0, .process = 50, .thread = 50, .tag = wire::SlotTag::kContext};
  ring.slots[2] = RecordedSample::read_event(2000, file, 0);
  ring.slots[3].context = {.ticks = 0, .process = 42, .thread = 43, .tag = wire::SlotTag::kContext};
  ring.slots[4] = RecordedSample::read_event(3000, file, 0);
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring}, {});
  const Trace trace = open();
  ASSERT_EQ(trace.processes().size(), 2u);
  EXPECT_EQ(trace.processes()[1].pid, 50u);
  EXPECT_EQ(trace.processes()[1].parent_pid, 42u);
  EXPECT_EQ(trace.processes()[1].origin, wire::ProcessOrigin::kFork);
  ASSERT_EQ(trace.threads().size(), 3u);
  ASSERT_EQ(trace.blocks().size(), 2u);
  EventColumns columns;
  ASSERT_TRUE(trace.read_block(1, columns).ok());
  EXPECT_THAT(columns.begin_ns, ElementsAre(2000));
}

TEST_F(RecordingTest, LossesAndUnreadableNamesAreReported) {
  wire::ProcessPage page = RecordedSample::process(42);
  page.lost = {.events = 17,
               .first_ticks = RecordedSample::ticks_at(100),
               .last_ticks = 0,
               .error = 28,
               .names = 2};
  Ring ring = RecordedSample::ring(0, 0, 42, 42);
  ring.slots[0] = RecordedSample::read_event(1000, static_cast<wire::NameId>(4000), 0);
  sample_.write_process("42-f4240", page, {ring}, {});
  const Trace trace = open();
  ASSERT_EQ(trace.losses().size(), 1u);
  EXPECT_EQ(trace.losses()[0].events, 17u);
  EXPECT_EQ(trace.losses()[0].first_ns, 100u);
  EXPECT_EQ(trace.losses()[0].error, 28);
  EXPECT_THAT(trace.problems(), ElementsAre(HasSubstr("name 4000 is not in the table")));
}

TEST_F(RecordingTest, ABrokenProcessFileDoesNotHideTheOthers) {
  const wire::NameId file = sample_.name("dataset/a");
  Ring ring = RecordedSample::ring(0, 0, 42, 42);
  RecordedSample::fill(ring, 1000, file, 1);
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring}, {});
  wire::ProcessPage broken{};
  sample_.write_process("43-f4240", broken, {}, {});
  const Trace trace = open();
  EXPECT_THAT(begins(trace), ElementsAre(1000));
  EXPECT_THAT(trace.problems(), ElementsAre(HasSubstr("43-f4240.rings: does not begin with")));
}

// Opens the recording repeatedly while a writer continues: each visible event is complete.
TEST_F(RecordingTest, ALiveRecordingIsReadWhileItIsWritten) {
  const wire::NameId file = sample_.name("dataset/a");
  sample_.write_process("42-f4240", RecordedSample::process(42),
                        {RecordedSample::ring(0, 0, 42, 42)}, {});
  sample_.write_session();
  const auto rings = sample_.directory() / "42-f4240.rings";
  const int fd = ::open(rings.c_str(), O_RDWR);
  void* memory = mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      static_cast<off_t>(wire::ring_offset(0)));
  ::close(fd);
  ASSERT_NE(memory, MAP_FAILED);
  auto* ring = static_cast<Ring*>(memory);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> written = 0;
  std::thread writer([&] {
    for (uint64_t i = 0; i < wire::kRingSlots && !stop; ++i) {
      const TraceSlot slot = RecordedSample::read_event(1000 * (i + 1), file, 4096 * i);
      std::memcpy(static_cast<void*>(&ring->slots[i]), &slot, 24);
      uint64_t word = 0;
      std::memcpy(&word, reinterpret_cast<const char*>(&slot) + 24, 8);
      std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(&ring->slots[i].record.size))
          .store(word, std::memory_order_release);
      written = i + 1;
      std::this_thread::yield();
    }
  });
  uint64_t seen = 0;
  for (int round = 0; round < 20 || seen == 0; ++round) {
    const uint64_t at_least = written;
    const Trace trace = *Trace::open(directory_->path().string());
    const auto all = begins(trace);
    seen = all.size();
    EXPECT_GE(seen, at_least);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], 1000 * (i + 1));
  }
  stop = true;
  writer.join();
  munmap(memory, sizeof(Ring));
}

}  // namespace
}  // namespace millrace::trace
