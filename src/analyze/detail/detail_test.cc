#include "analyze/detail/detail.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "analyze/testing/metric_run.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"
#include "base/text/json.h"

namespace millrace::analyze {
namespace {

using std::chrono::nanoseconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Lt;
using testing::SizeIs;
using namespace std::chrono_literals;

// The texts and numbers of the JSON, for matchers.
std::vector<std::string> texts(const Node& list) {
  std::vector<std::string> made;
  for (const Node& item : list.items()) made.push_back(item.text());
  return made;
}
std::vector<int64_t> numbers(const Node& list) {
  std::vector<int64_t> made;
  for (const Node& item : list.items()) made.push_back(item.as_int().ok() ? *item.as_int() : -99);
  return made;
}

class DetailTest : public testing::Test {
 protected:
  DetailTest() : directory_(*TemporaryDirectory::create()) {}

  TraceBuilder& job() { return job_; }

  const Context& context() {
    if (!trace_) {
      trace_.emplace(job_.finish());
      context_.emplace(make_context(*trace_, {}, problems_));
    }
    return *context_;
  }

  // The whole document. References into it stay valid.
  const Node& detail(const DetailLimits& limits = {}, const Profile& profile = {}) {
    const std::string text = detail_json(context(), profile, limits);
    auto parsed = parse_json(text, "detail");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message();
    if (parsed.ok()) document_ = *std::move(parsed);
    return document_.root;
  }

  static const Node& in(const Node& map, std::string_view name) {
    static const Node kNothing;
    const Node* found = map.find(name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? kNothing : *found;
  }

 private:
  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
  std::optional<trace::Trace> trace_;
  std::vector<std::string> problems_;
  std::optional<Context> context_;
  Document document_;
};

TEST_F(DetailTest, ASmallTraceIsOneWindowWithAllEvents) {
  const Program rank0 = job().program({.rank = 0, .world_size = 1});
  rank0.open("/data/a", {.at = 1000ns, .takes = 50ns, .detail = 0});
  rank0.read("/data/a", {.at = 1100ns, .takes = 200ns, .offset = 64, .size = 32, .result = 30});
  rank0.region("fetch", {.at = 1050ns, .takes = 400ns, .epoch = 3, .step = 4, .thread = 1});
  rank0.read("/data/b",
             {.at = 1200ns, .takes = 0ns, .size = 8, .result = -1, .error = 5, .thread = 1});
  rank0.close("/data/a", {.at = 2000ns, .takes = 0ns});
  const Node& found = detail();
  ASSERT_THAT(in(found, "windows").items(), SizeIs(1));
  const Node& window = in(found, "windows").items()[0];
  EXPECT_EQ(in(window, "why").text(), "whole job");
  EXPECT_EQ(in(window, "begin_ns").text(), "0");
  EXPECT_EQ(in(window, "end_ns").text(), "1000");
  EXPECT_THAT(texts(in(found, "names")),
              ElementsAre("open", "pread", "close", "fetch", "/data/a", "/data/b"));
  EXPECT_THAT(numbers(in(window, "threads")), ElementsAre(0, 1));
  EXPECT_THAT(numbers(in(window, "thread")), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(numbers(in(window, "name")), ElementsAre(0, 1, 2, 3, 1));
  EXPECT_THAT(numbers(in(window, "layer")), ElementsAre(5, 5, 5, 1, 5));
  EXPECT_THAT(numbers(in(window, "begin")), ElementsAre(0, 100, 1000, 50, 200));
  EXPECT_THAT(numbers(in(window, "duration")), ElementsAre(50, 200, 0, 400, 0));
  EXPECT_THAT(numbers(in(window, "file")), ElementsAre(4, 4, 4, -1, 5));
  EXPECT_THAT(numbers(in(window, "offset")), ElementsAre(-1, 64, -1, -1, -1));
  EXPECT_THAT(numbers(in(window, "size")), ElementsAre(0, 32, 0, -1, 8));
  EXPECT_THAT(numbers(in(window, "result")), ElementsAre(3, 30, 0, 0, -1));
  EXPECT_THAT(numbers(in(window, "error")), ElementsAre(0, 0, 0, 0, 5));
  ASSERT_THAT(in(found, "threads").items(), SizeIs(2));
  const Node& thread = in(found, "threads").items()[1];
  EXPECT_EQ(in(thread, "rank").text(), "rank 0");
  EXPECT_EQ(in(thread, "process").text(), "1000");
  EXPECT_EQ(in(thread, "tid").text(), "11000");
  EXPECT_EQ(in(thread, "title").text(), "main, thread 11000");
}

TEST_F(DetailTest, ThreadsAreSortedByRankWithTheMainProcessFirst) {
  const Program rank1 = job().program({.rank = 1, .world_size = 2});
  const Program rank0 = job().program({.rank = 0, .world_size = 2});
  const Program late = job().program({.parent_pid = rank0.pid()});
  const Program early = job().program({.parent_pid = rank0.pid()});
  rank1.read("/a", {.at = 0ns, .takes = 5ns, .size = 1});
  rank0.region("compute", {.at = 10ns, .takes = 5ns, .thread = 1});
  rank0.region("compute", {.at = 20ns, .takes = 5ns});
  late.read("/a", {.at = 60ns, .takes = 5ns, .size = 1});
  early.read("/a", {.at = 50ns, .takes = 5ns, .size = 1});
  std::vector<std::string> titles;
  for (const Node& thread : in(detail(), "threads").items()) {
    titles.push_back(in(thread, "rank").text() + " " + in(thread, "title").text());
  }
  EXPECT_THAT(titles, ElementsAre("rank 0 main", "rank 0 main, thread 11001", "rank 0 worker 1",
                                  "rank 0 worker 2", "rank 1 main"));
}

TEST_F(DetailTest, HasOnlyValuesThatJsonAndDoublesCanRepresent) {
  const Program program = job().program({});
  program.read("/data/\xff\xfe\"\n", {.at = 0ns,
                                      .takes = 10ns,
                                      .offset = uint64_t{1} << 60,
                                      .size = ~uint64_t{0} >> 1,
                                      .result = INT64_MIN});
  const Node& found = detail();
  const Node& window = in(found, "windows").items().at(0);
  constexpr int64_t kMost = (int64_t{1} << 53) - 1;
  EXPECT_THAT(numbers(in(window, "offset")), ElementsAre(-1));
  EXPECT_THAT(numbers(in(window, "size")), ElementsAre(kMost));
  EXPECT_THAT(numbers(in(window, "result")), ElementsAre(-kMost));
  EXPECT_EQ(texts(in(found, "names"))[1], "/data/\uFFFD\uFFFD\"\n");
}

TEST_F(DetailTest, APartOfATraceIsOneWindowWithAllWantedEvents) {
  const Program rank0 = job().program({.rank = 0, .world_size = 2});
  const Program rank1 = job().program({.rank = 1, .world_size = 2});
  for (int i = 0; i < 100; ++i) {
    rank0.read("/data/a", {.at = 1000ns + i * 100ns, .takes = 50ns, .size = 8, .result = 8});
    rank1.read("/data/b", {.at = 1000ns + i * 100ns, .takes = 50ns, .size = 8, .result = 8});
  }
  // The effect of --from 2us --until 3.99us --ranks 1.
  Options options;
  options.window = Interval{3000, 4990};
  const trace::Trace& trace = context().trace;
  options.wants_block = [&](const trace::BlockInfo& block) {
    return trace.processes()[static_cast<size_t>(block.process)].rank == 1;
  };
  std::vector<std::string> problems;
  const Context part = make_context(trace, options, problems);
  Profile profile;
  profile.job.events = 20;
  const auto parsed = parse_json(detail_json(part, profile, {.events = 50}), "detail");
  ASSERT_TRUE(parsed.ok());
  const Node& found = parsed->root;
  EXPECT_EQ(in(found, "origin_ns").text(), "2000");
  ASSERT_THAT(in(found, "windows").items(), SizeIs(1));
  const Node& window = in(found, "windows").items()[0];
  EXPECT_EQ(in(window, "why").text(), "whole job");
  EXPECT_THAT(in(window, "thread").items(), SizeIs(20));
  ASSERT_THAT(in(found, "threads").items(), SizeIs(1));
  EXPECT_EQ(in(in(found, "threads").items()[0], "rank").text(), "rank 1");
}

TEST_F(DetailTest, AnEmptyTraceHasNoDetail) {
  job().program({});
  const Node& found = detail();
  EXPECT_THAT(in(found, "names").items(), IsEmpty());
  EXPECT_THAT(in(found, "threads").items(), IsEmpty());
  EXPECT_THAT(in(found, "windows").items(), IsEmpty());
  EXPECT_THAT(in(found, "levels").items(), IsEmpty());
}

// Two ranks that read every microsecond for 100 ms, in two blocks each, within one region.
void make_long_job(TraceBuilder& job) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Program program = job.program({.rank = rank, .world_size = 2});
    for (int i = 0; i < 100'000; ++i) {
      program.read("/data/a", {.at = nanoseconds(1000 * i + 100), .takes = 500ns, .size = 10});
    }
    program.region("epoch", {.at = 0ns, .takes = 100ms, .epoch = 0});
  }
}

TEST_F(DetailTest, ALargeTraceHasWindowsWithoutGaps) {
  make_long_job(job());
  Profile profile;
  profile.steps.slowest = {
      {.epoch = 0, .step = 17, .rank = 1, .begin_ns = 70'000'000, .duration_ns = 50'000},
      {.epoch = -1, .step = 18, .rank = 0, .begin_ns = 10'000'000, .duration_ns = 90'000'000}};
  const Node& found = detail({.events = 3000}, profile);
  const std::vector<Node>& windows = in(found, "windows").items();
  ASSERT_THAT(windows, SizeIs(3));
  EXPECT_EQ(in(windows[0], "why").text(), "begin of the job");
  EXPECT_EQ(in(windows[1], "why").text(), "slow step 18, rank 0");
  EXPECT_EQ(in(windows[2], "why").text(), "slow step 17 of epoch 0, rank 1");

  // Both ranks, up to the first excess event.
  EXPECT_EQ(in(windows[0], "begin_ns").text(), "0");
  EXPECT_EQ(in(windows[0], "end_ns").text(), "499100");
  EXPECT_THAT(numbers(in(windows[0], "begin")), SizeIs(2 * 499 + 2));
  EXPECT_THAT(numbers(in(windows[0], "threads")), ElementsAre(0, 1));

  // One rank. The region around it begins long before.
  EXPECT_EQ(in(windows[1], "begin_ns").text(), "10000000");
  EXPECT_THAT(numbers(in(windows[1], "threads")), ElementsAre(0));
  const std::vector<int64_t> begins = numbers(in(windows[1], "begin"));
  ASSERT_THAT(begins, SizeIs(1000));
  EXPECT_EQ(begins[0], -10'000'000);
  for (size_t i = 1; i < begins.size(); ++i) EXPECT_EQ(begins[i], 1000 * int64_t(i) - 900);

  // Small enough to be complete.
  EXPECT_EQ(in(windows[2], "begin_ns").text(), "70000000");
  EXPECT_EQ(in(windows[2], "end_ns").text(), "70050000");
  EXPECT_THAT(numbers(in(windows[2], "begin")), SizeIs(50 + 1));
  EXPECT_THAT(numbers(in(windows[2], "thread")), Each(1));
}

TEST_F(DetailTest, EpochsCheckpointsAndTheBusiestTimeHaveWindows) {
  make_long_job(job());
  Profile profile = profile_by(context().trace, make_timeline_metric, {.timeline_bins = 100});
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const auto begin_ns = static_cast<uint64_t>(20'000'000 * epoch);
    profile.epochs.push_back(
        {.epoch = epoch, .begin_ns = begin_ns, .end_ns = begin_ns + 20'000'000});
  }
  profile.checkpoints = {{.begin_ns = 5'000'000, .end_ns = 5'000'010},
                         {.begin_ns = 6'000'000, .end_ns = 6'100'000}};
  profile.timeline.busy_ns[33] += 1;
  const Node& found = detail({.events = 50'000}, profile);
  std::vector<std::string> places;
  size_t events = 0;
  for (const Node& window : in(found, "windows").items()) {
    places.push_back(in(window, "begin_ns").text() + ": " + in(window, "why").text());
    events += in(window, "begin").items().size();
  }
  EXPECT_THAT(places, ElementsAre("0: begin of the job", "0: begin of epoch 0",
                                  "6000000: longest checkpoint", "20000000: begin of epoch 1",
                                  "33000000: most calls in flight", "80000000: begin of epoch 4"));
  EXPECT_THAT(events, Le(50'000u + 12u));  // plus the regions around them
}

TEST_F(DetailTest, AProfileOfAnotherTraceDoesNoHarm) {
  make_long_job(job());
  Profile profile;
  profile.steps.slowest = {{.rank = 77, .begin_ns = 5, .duration_ns = 5},
                           {.rank = 0, .begin_ns = ~uint64_t{0} - 5, .duration_ns = 3}};
  profile.timeline.busy_ns = {1, 2};
  profile.timeline.bin_ns = ~uint64_t{0} / 2;
  const Node& found = detail({.events = 100}, profile);
  for (const Node& window : in(found, "windows").items()) {
    EXPECT_THAT(in(window, "begin").items().size(), Lt(110u));
  }
}

TEST_F(DetailTest, LevelsShowEachThreadAndLayerInFinerAndFinerBins) {
  const Program program = job().program({});
  program.close("/first", {.at = 0ns, .takes = 0ns});
  program.region("epoch", {.at = 0ns, .takes = 10'240ns});
  program.region("compute", {.at = 5120ns, .takes = 5120ns});
  program.read("/a", {.at = 10ns, .takes = 5ns, .size = 1});
  program.read("/a", {.at = 10ns, .takes = 25ns, .size = 1, .thread = 1});
  program.call(wire::Call::kH5Dread, "/a", {.at = 8ns, .takes = 40ns, .size = 1, .thread = 1});
  const Node& found = detail({.level_bins = 4800});
  const std::vector<Node>& levels = in(found, "levels").items();
  // 2400 bins for each of two threads would be 5 ns wide. There are four rows, so two bins become
  // one.
  ASSERT_THAT(levels, SizeIs(2));
  EXPECT_EQ(in(levels[0], "bin_ns").text(), "80");
  EXPECT_EQ(in(levels[1], "bin_ns").text(), "10");
  const std::vector<Node>& rows = in(levels[1], "rows").items();
  std::vector<std::string> places;
  for (const Node& row : rows) {
    places.push_back(in(row, "thread").text() + " " + in(row, "layer").text());
  }
  EXPECT_THAT(in(rows[0], "busy").items(), SizeIs(1024));
  EXPECT_THAT(in(rows[1], "busy").items(), SizeIs(2));  // zeros at the end are left out
  EXPECT_THAT(places, ElementsAre("0 0", "0 5", "1 2", "1 5"));
  const auto first = [&](const Node& row) {
    std::vector<int64_t> busy = numbers(in(row, "busy"));
    busy.resize(6);
    return busy;
  };
  EXPECT_THAT(first(rows[0]), ElementsAre(0, 0, 0, 0, 0, 0));  // the epoch only contains the others
  EXPECT_THAT(first(rows[1]), ElementsAre(0, 500, 0, 0, 0, 0));
  EXPECT_THAT(first(rows[2]), ElementsAre(200, 1000, 1000, 1000, 800, 0));
  EXPECT_THAT(first(rows[3]), ElementsAre(0, 1000, 1000, 500, 0, 0));
  EXPECT_EQ(numbers(in(rows[0], "busy"))[511], 0);
  EXPECT_EQ(numbers(in(rows[0], "busy"))[512], 1000);
  EXPECT_EQ(numbers(in(in(levels[0], "rows").items()[2], "busy"))[0], 500);
}

TEST_F(DetailTest, LevelsOfManyThreadsShowEvenlySpacedRanks) {
  for (int32_t rank = 0; rank < 16; ++rank) {
    const Program program = job().program({.rank = rank, .world_size = 16});
    program.read("/a", {.at = 0ns, .takes = 1000ns, .size = 1});
  }
  const Node& found = detail({.level_threads = 4});
  std::vector<int64_t> threads;
  for (const Node& row : in(in(found, "levels").items().at(0), "rows").items()) {
    threads.push_back(*in(row, "thread").as_int());
  }
  EXPECT_THAT(threads, ElementsAre(0, 4, 8, 12));
}

}  // namespace
}  // namespace millrace::analyze
