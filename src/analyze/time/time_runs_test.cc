#include "analyze/time/time_runs.h"

#include <gtest/gtest.h>

#include <map>

#include "analyze/time/ordered_spans.h"
#include "base/numbers/random.h"

namespace millrace::analyze {
namespace {

std::vector<Interval> spans_of(const IntervalRun& run) {
  std::vector<Interval> spans;
  RunCursor cursor(run);
  for (Interval span; cursor.next(span);) spans.push_back(span);
  return spans;
}

bool any_tag(uint64_t) { return true; }

TEST(TimeRuns, UnitesSpansInTheOrderOfTheirEnds) {
  TimeRuns runs;
  // Two within a third that comes after them, as a recorder writes them. One apart, one empty.
  std::vector<Interval> spans = {{10, 20}, {30, 40}, {5, 50}, {55, 55}, {60, 70}};
  runs.add(7, spans);
  ASSERT_EQ(runs.runs().size(), 1u);
  EXPECT_EQ(runs.runs()[0].tag, 7u);
  EXPECT_EQ(spans_of(runs.runs()[0].run), (std::vector<Interval>{{5, 50}, {60, 70}}));
}

TEST(TimeRuns, UnitesSpansInAnyOrder) {
  TimeRuns runs;
  std::vector<Interval> spans = {{60, 70}, {10, 20}, {20, 25}, {40, 65}};
  runs.add(0, spans);
  ASSERT_EQ(runs.runs().size(), 1u);
  EXPECT_EQ(spans_of(runs.runs()[0].run), (std::vector<Interval>{{10, 25}, {40, 70}}));
}

TEST(TimeRuns, EmptyListsMakeNoRun) {
  TimeRuns runs;
  std::vector<Interval> none;
  runs.add(1, none);
  std::vector<Interval> empty = {{5, 5}, {9, 3}};
  runs.add(1, empty);
  EXPECT_TRUE(runs.runs().empty());
}

TEST(TimeRuns, LongListsBecomeSeveralRuns) {
  TimeRuns runs;
  std::vector<Interval> spans;
  for (uint64_t i = 0; i < 2 * TimeRuns::kRunSpans + 1; ++i) spans.push_back({10 * i, 10 * i + 5});
  runs.add(0, spans);
  EXPECT_EQ(runs.runs().size(), 3u);
  EXPECT_EQ(runs.span_count(), 2 * TimeRuns::kRunSpans + 1);
}

TEST(TimeRuns, SavedRunsCanBeLoaded) {
  TimeRuns runs;
  std::vector<Interval> spans = {{10, 20}, {30, uint64_t{1} << 50}};
  runs.add(3, spans);
  std::vector<std::byte> saved;
  runs.save(saved);
  TimeRuns loaded;
  ByteReader reader(saved);
  ASSERT_TRUE(loaded.merge(reader, any_tag).ok());
  EXPECT_TRUE(reader.at_end());
  ASSERT_EQ(loaded.runs().size(), 1u);
  EXPECT_EQ(spans_of(loaded.runs()[0].run),
            (std::vector<Interval>{{10, 20}, {30, uint64_t{1} << 50}}));
}

TEST(TimeRuns, UnknownTagsAreRejectedAndNothingIsAdded) {
  TimeRuns runs;
  std::vector<Interval> spans = {{10, 20}};
  runs.add(3, spans);
  spans = {{10, 20}};
  runs.add(4, spans);
  std::vector<std::byte> saved;
  runs.save(saved);
  TimeRuns loaded;
  ByteReader reader(saved);
  EXPECT_FALSE(loaded.merge(reader, [](uint64_t tag) { return tag == 3; }).ok());
  EXPECT_TRUE(loaded.runs().empty());
}

TEST(TimeRuns, TruncatedBytesAreRejected) {
  TimeRuns runs;
  std::vector<Interval> spans = {{10, 20}, {300, 70000}};
  runs.add(3, spans);
  std::vector<std::byte> saved;
  runs.save(saved);
  for (size_t length = 0; length < saved.size(); ++length) {
    TimeRuns loaded;
    ByteReader reader(ByteView(saved).first(length));
    EXPECT_FALSE(loaded.merge(reader, any_tag).ok()) << length;
    EXPECT_TRUE(loaded.runs().empty());
  }
}

// Many overlapping runs, with some spans too long for the short form. For any number of slices,
// every nanosecond of every span appears once, cut to the window, and each slice is in order.
TEST(OrderedSpans, ReturnEverySpanInOrderForAnyNumberOfSlices) {
  Random random(7);
  TimeRuns runs;
  const Interval window{1000, 60'000'000'000};
  std::map<uint32_t, uint64_t> expected_ns;
  for (uint32_t tag = 0; tag < 40; ++tag) {
    std::vector<Interval> spans;
    uint64_t at = random.below(5000);
    for (int i = 0; i < 1500; ++i) {
      const uint64_t length = i % 500 == 3 ? 3'000'000'000 + random.below(1000) : random.below(900);
      spans.push_back({at, at + length});
      if (length > 0) {
        const uint64_t begin = std::max(at, window.begin_ns);
        const uint64_t end = std::min(at + length, window.end_ns);
        expected_ns[tag] += end > begin ? end - begin : 0;
      }
      at += length + 1 + random.below(100'000'000);
    }
    runs.add(tag, spans);
  }
  for (const size_t slice_count : {1, 3, 100}) {
    std::vector<RunView> views;
    for (const TaggedRun& tagged : runs.runs()) views.push_back({&tagged.run, tagged.tag});
    std::map<uint32_t, uint64_t> found_ns;
    OrderedSpans ordered;
    uint64_t reached_ns = window.begin_ns;
    for (const TimeSlice& slice : make_slices(views, window, slice_count)) {
      EXPECT_EQ(slice.time.begin_ns, reached_ns);
      reached_ns = slice.time.end_ns;
      ordered.begin(slice);
      uint64_t last_ns = slice.time.begin_ns;
      while (ordered.next_batch()) {
        for (const OrderedSpan& span : ordered.batch()) {
          ASSERT_GE(span.begin_ns, last_ns);
          ASSERT_LE(ordered.end_of(span), slice.time.end_ns);
          last_ns = span.begin_ns;
          found_ns[span.tag] += ordered.end_of(span) - span.begin_ns;
        }
      }
    }
    EXPECT_EQ(reached_ns, window.end_ns);
    EXPECT_EQ(found_ns, expected_ns) << slice_count;
  }
}

}  // namespace
}  // namespace millrace::analyze
