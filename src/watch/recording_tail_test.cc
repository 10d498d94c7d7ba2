#include "watch/recording_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "trace/testing/recorded_sample.h"

namespace millrace::watch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using trace::ByteSource;
using trace::RecordedSample;
using wire::kRingSlots;
using wire::Ring;

// A recording in memory that grows between looks.
class RecordingTailTest : public testing::Test {
 protected:
  static constexpr wire::NameId kFile{9};

  void add_reads(Ring& ring, size_t count) {
    size_t at = 0;
    while (at < kRingSlots && static_cast<uint16_t>(ring.slots[at].record.call) != 0) ++at;
    for (size_t i = 0; i < count; ++i) {
      ring.slots[at + i] = RecordedSample::read_event(next_++, kFile, 0);
    }
  }

  // Does what the recorder does: appends the ring to the log, empties it and increments its
  // sequence.
  void write_out(Ring& ring) {
    log_.append(reinterpret_cast<const char*>(&ring), sizeof(ring));
    std::memset(static_cast<void*>(ring.slots), 0, sizeof(ring.slots));
    ++ring.header.sequence;
  }

  // Returns the numbers of the reads that were delivered, computed from their begin times.
  std::vector<uint64_t> look(bool is_over = false) {
    std::string file(wire::ring_offset(0), '\0');
    for (const Ring& ring : rings_) {
      file.append(reinterpret_cast<const char*>(&ring), sizeof(ring));
    }
    std::vector<uint64_t> begins;
    const ByteSource source(bytes_of(file));
    tail_.read(source, open_log(), is_over,
               [&](std::span<const wire::TraceSlot> slots, trace::HostThread thread) {
                 begins.push_back((slots[0].record.begin_ticks - RecordedSample::kFirstTicks) / 2);
                 threads_.push_back(thread.tid);
               });
    return begins;
  }

  void skip() {
    std::string file(wire::ring_offset(0), '\0');
    for (const Ring& ring : rings_) {
      file.append(reinterpret_cast<const char*>(&ring), sizeof(ring));
    }
    tail_.skip(ByteSource(bytes_of(file)), open_log());
  }

  RecordingTail::OpenLog open_log() {
    return [this]() -> Result<std::unique_ptr<ByteSource>> {
      if (log_.empty()) return std::unique_ptr<ByteSource>();
      return std::make_unique<ByteSource>(bytes_of(log_));
    };
  }

  static std::vector<uint64_t> numbers(uint64_t first, uint64_t end) {
    std::vector<uint64_t> all;
    for (uint64_t i = first; i < end; ++i) all.push_back(i);
    return all;
  }

  std::vector<Ring> rings_ = {RecordedSample::ring(0, 0, 42, 42)};
  std::string log_;
  uint64_t next_ = 0;
  RecordingTail tail_;
  std::vector<uint32_t> threads_;
};

TEST_F(RecordingTailTest, DeliversEachEventOnce) {
  add_reads(rings_[0], 3);
  EXPECT_EQ(look(), numbers(0, 3));
  EXPECT_THAT(look(), IsEmpty());
  add_reads(rings_[0], 300);  // more than is read at a time
  EXPECT_EQ(look(), numbers(3, 303));
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(RecordingTailTest, ContinuesInTheLogAfterTheRingWasWrittenOut) {
  add_reads(rings_[0], 100);
  EXPECT_EQ(look(), numbers(0, 100));
  add_reads(rings_[0], kRingSlots - 100);
  write_out(rings_[0]);
  add_reads(rings_[0], kRingSlots);
  write_out(rings_[0]);
  add_reads(rings_[0], 5);
  EXPECT_EQ(look(), numbers(100, next_));
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(RecordingTailTest, SkipsARingThatIsInTheLogButNotYetEmptied) {
  add_reads(rings_[0], kRingSlots);
  log_.append(reinterpret_cast<const char*>(&rings_[0]), sizeof(Ring));
  EXPECT_EQ(look(), numbers(0, kRingSlots));
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(RecordingTailTest, WaitsForAnIncompleteEvent) {
  add_reads(rings_[0], 3);
  const wire::Call call = rings_[0].slots[1].record.call;
  rings_[0].slots[1].record.call = wire::Call::kEmpty;  // its first slot is not written yet
  EXPECT_THAT(look(), ElementsAre(0));
  EXPECT_THAT(look(), IsEmpty());
  rings_[0].slots[1].record.call = call;
  EXPECT_THAT(look(), ElementsAre(1, 2));
}

TEST_F(RecordingTailTest, SkipsUnfinishedEventsOnceTheProcessHasEnded) {
  add_reads(rings_[0], 4);
  rings_[0].slots[1] = {};
  EXPECT_THAT(look(), ElementsAre(0));
  EXPECT_THAT(look(/*is_over=*/true), ElementsAre(2, 3));
}

TEST_F(RecordingTailTest, RemembersTheCurrentThreadAcrossLooks) {
  add_reads(rings_[0], 1);
  rings_[0].slots[1].context = {.ticks = 0,
                                .process = 42,
                                .thread = 77,
                                .reserved = 0,
                                .reserved2 = 0,
                                .tag = wire::SlotTag::kContext,
                                .reserved3 = 0};
  look();
  add_reads(rings_[0], 2);
  EXPECT_EQ(look(), numbers(1, 3));
  EXPECT_THAT(threads_, ElementsAre(42, 77, 77));
}

TEST_F(RecordingTailTest, SkipLeavesOutEarlierEvents) {
  add_reads(rings_[0], kRingSlots);
  write_out(rings_[0]);
  add_reads(rings_[0], 10);
  skip();
  const uint64_t before = next_;
  add_reads(rings_[0], 2);
  EXPECT_EQ(look(), numbers(before, before + 2));
}

TEST_F(RecordingTailTest, ReadsAChunkOnceItIsCompletelyAppended) {
  add_reads(rings_[0], kRingSlots);
  const Ring full = rings_[0];
  write_out(rings_[0]);
  const std::string whole = log_;
  log_.resize(30'000);
  rings_[0] = full;  // not emptied yet: the recorder does that after appending
  EXPECT_EQ(look(), numbers(0, kRingSlots));
  log_ = whole;
  rings_[0] = RecordedSample::ring(0, 1, 42, 42);
  add_reads(rings_[0], 1);
  EXPECT_EQ(look(), numbers(kRingSlots, kRingSlots + 1));
}

TEST_F(RecordingTailTest, ReportsThatAPackerTookTheLogAndWhatWasDelivered) {
  add_reads(rings_[0], 100);
  look();
  add_reads(rings_[0], kRingSlots - 100);
  write_out(rings_[0]);
  add_reads(rings_[0], 7);
  std::fill(log_.begin(), log_.end(), '\0');  // the packer freed the space
  EXPECT_THAT(look(), IsEmpty());
  ASSERT_TRUE(tail_.is_behind());

  const trace::Consumed consumed{
      .log_bytes = log_.size(), .done = false, .next_sequence = {{0, 1}}};
  EXPECT_TRUE(tail_.is_missing_some_of(consumed));
  EXPECT_THAT(tail_.delivered_before(consumed),
              ElementsAre(std::pair(std::pair<uint32_t, uint32_t>(42, 42), 100)));
  tail_.settle(consumed);
  EXPECT_FALSE(tail_.is_missing_some_of(consumed));
  EXPECT_EQ(look(), numbers(kRingSlots, kRingSlots + 7));
  EXPECT_FALSE(tail_.is_behind());
}

TEST_F(RecordingTailTest, NothingIsMissingIfItWasReadBeforePacking) {
  add_reads(rings_[0], kRingSlots);
  write_out(rings_[0]);
  look();
  const trace::Consumed consumed{
      .log_bytes = log_.size(), .done = false, .next_sequence = {{0, 1}}};
  EXPECT_FALSE(tail_.is_missing_some_of(consumed));
  tail_.settle(consumed);
  EXPECT_THAT(tail_.delivered_before(consumed), IsEmpty());
}

TEST_F(RecordingTailTest, ReportsDamageInTheLogAndContinues) {
  add_reads(rings_[0], kRingSlots);
  write_out(rings_[0]);
  log_ = std::string(100, 'x') + log_;
  EXPECT_EQ(look(), numbers(0, kRingSlots));
  EXPECT_THAT(tail_.take_problems(),
              ElementsAre(HasSubstr("damaged at byte 0; reading continues at byte 100")));
}

TEST_F(RecordingTailTest, SkipsAnEventThatClaimsTooManySlots) {
  add_reads(rings_[0], 2);
  rings_[0].slots[0].record.slots = 255;
  rings_[0].slots[kRingSlots - 1] = RecordedSample::read_event(900, kFile, 0);
  look();
  EXPECT_THAT(look(/*is_over=*/true), testing::Contains(900));
}

}  // namespace
}  // namespace millrace::watch
