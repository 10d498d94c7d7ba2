#include "replay/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/testing/call_trace.h"

namespace millrace::replay {
namespace {

using testing::ElementsAre;
using wire::Call;

std::vector<Call> calls_of(const Plan& plan) {
  std::vector<Call> calls;
  for (const Step& step : plan.steps) calls.push_back(step.call);
  return calls;
}

const Path& path_of(const Plan& plan, std::string_view name) {
  const uint32_t index = plan.names.find(name);
  EXPECT_NE(index, kNoPath) << name;
  return plan.paths[index];
}

TEST(Plan, CallsOnAFileUseTheHandleOfItsOpen) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 10, .result = 10},
                   {.call = Call::kPread, .file = "/d/a", .offset = 90, .size = 20, .result = 10},
                   {.call = Call::kClose, .file = "/d/a"}});
  const Plan plan = trace.plan();
  ASSERT_EQ(plan.handles.size(), 1u);
  EXPECT_EQ(plan.handles[0].use_count, 2u);
  EXPECT_TRUE(plan.handles[0].is_closed);
  EXPECT_FALSE(plan.handles[0].is_implied);
  EXPECT_THAT(calls_of(plan), ElementsAre(Call::kOpen, Call::kRead, Call::kPread, Call::kClose));
  EXPECT_TRUE(plan.steps[1].has(kAtPosition));
  EXPECT_EQ(plan.root, "/d");
  EXPECT_EQ(path_of(plan, "/d/a").size_bytes, 100u);
  EXPECT_EQ(path_of(plan, "/d/a").before, Existence::kPresent);
}

TEST(Plan, TwoOpensOfOneFileAreToldApartByTheirPositions) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kOpen, .file = "/d/a", .result = 4},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 5, .result = 5},
                   {.call = Call::kRead, .file = "/d/a", .offset = 10, .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "/d/a", .offset = 5, .size = 5, .result = 5}});
  const Plan plan = trace.plan();
  EXPECT_EQ(plan.steps[2].target, plan.steps[4].target);
  EXPECT_EQ(plan.steps[3].target, plan.steps[5].target);
  EXPECT_NE(plan.steps[2].target, plan.steps[3].target);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(plan.steps[i].has(kAtPosition)) << i;
}

TEST(Plan, ReadsWithoutAnOpenAreKept) {
  CallTrace trace({{.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "/d/a", .offset = 10, .size = 10, .result = 0},
                   {.call = Call::kClose, .file = "/d/a"}});
  const Plan plan = trace.plan();
  ASSERT_EQ(plan.handles.size(), 1u);
  EXPECT_TRUE(plan.handles[0].is_implied);
  EXPECT_THAT(calls_of(plan), ElementsAre(Call::kRead, Call::kRead));
  EXPECT_EQ(plan.skipped.unmatched, 1u);
}

TEST(Plan, WhatCannotBeReplayedIsCounted) {
  CallTrace trace({{.call = Call::kRead, .file = "", .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "<pipe>", .size = 10, .result = 10},
                   {.call = Call::kOpen, .file = "/proc/self/maps", .result = 3},
                   {.call = Call::kFlock, .file = "/d/a"},
                   {.call = Call::kMmap, .file = "/d/a", .size = 4096},
                   {.call = Call::kFork, .file = ""},
                   {.call = Call::kStat, .file = "/d/a"}});
  const Plan plan = trace.plan();
  EXPECT_THAT(calls_of(plan), ElementsAre(Call::kStat));
  EXPECT_EQ(plan.skipped.unknown_file, 1u);
  EXPECT_EQ(plan.skipped.not_storage, 2u);
  EXPECT_EQ(plan.skipped.cannot.at("flock"), 1u);
  EXPECT_EQ(plan.skipped.covered, 1u);
  EXPECT_EQ(plan.skipped.total(), 5u);
}

TEST(Plan, FilesThatTheTraceCreatesAreNotPrepared) {
  const uint32_t create = O_WRONLY | O_CREAT | O_TRUNC;
  CallTrace trace({{.call = Call::kStat, .file = "/d/new", .result = -1},
                   {.call = Call::kMkdir, .file = "/d/new"},
                   {.call = Call::kOpen, .file = "/d/new/t", .result = 3, .detail = create},
                   {.call = Call::kWrite, .file = "/d/new/t", .offset = 0, .size = 9, .result = 9},
                   {.call = Call::kClose, .file = "/d/new/t"},
                   {.call = Call::kRename, .file = "/d/new/t", .other_file = "/d/new/f"},
                   {.call = Call::kOpen, .file = "/d/new/f", .result = 3},
                   {.call = Call::kRead, .file = "/d/new/f", .offset = 0, .size = 9, .result = 9}});
  const Plan plan = trace.plan();
  for (const std::string_view name : {"/d/new", "/d/new/t", "/d/new/f"}) {
    EXPECT_EQ(path_of(plan, name).before, Existence::kAbsent) << name;
    EXPECT_TRUE(path_of(plan, name).is_created) << name;
    EXPECT_EQ(path_of(plan, name).size_bytes, 0u) << name;
  }
  EXPECT_TRUE(path_of(plan, "/d/new").is_directory);
}

TEST(Plan, AnAppendedFileHadTheSizeThatStatSaw) {
  const uint32_t append = O_WRONLY | O_CREAT | O_APPEND;
  CallTrace trace({{.call = Call::kOpen, .file = "/d/log", .result = 3, .detail = append},
                   {.call = Call::kFstat, .file = "/d/log", .size = 500},
                   {.call = Call::kWrite, .file = "/d/log", .offset = 500, .size = 9, .result = 9},
                   {.call = Call::kFstat, .file = "/d/log", .size = 509}});
  const Plan plan = trace.plan();
  EXPECT_EQ(path_of(plan, "/d/log").before, Existence::kPresent);
  EXPECT_EQ(path_of(plan, "/d/log").size_bytes, 500u);
}

TEST(Plan, StreamsAreReplayedUnlessTheirSystemCallsAreInTheTrace) {
  const std::vector<Recorded> streams = {{.call = Call::kFopen, .file = "/d/a", .begin_ns = 1000},
                                         {.call = Call::kFread,
                                          .file = "/d/a",
                                          .offset = 0,
                                          .size = 10,
                                          .result = 10,
                                          .begin_ns = 2000,
                                          .duration_ns = 500},
                                         {.call = Call::kFclose, .file = "/d/a", .begin_ns = 3000}};
  const Plan plan = CallTrace(streams).plan();
  EXPECT_THAT(calls_of(plan), ElementsAre(Call::kFopen, Call::kFread, Call::kFclose));

  std::vector<Recorded> both = streams;
  both.push_back({.call = Call::kOpen, .file = "/d/a", .result = 3, .begin_ns = 1010});
  both.push_back({.call = Call::kRead,
                  .file = "/d/a",
                  .offset = 0,
                  .size = 4096,
                  .result = 10,
                  .begin_ns = 2100});
  both.push_back({.call = Call::kClose, .file = "/d/a", .begin_ns = 3010});
  const Plan lower = CallTrace(both).plan();
  EXPECT_THAT(calls_of(lower), ElementsAre(Call::kOpen, Call::kRead, Call::kClose));
  EXPECT_EQ(lower.skipped.covered, 3u);
}

TEST(Plan, MpiioIsReplayedOnlyWithoutPosixCallsOfTheSameFile) {
  const Recorded above{
      .call = Call::kMpiFileReadAt, .file = "/d/a", .offset = 64, .size = 10, .result = 10};
  const Plan alone = CallTrace({above}).plan();
  EXPECT_THAT(calls_of(alone), ElementsAre(Call::kMpiFileReadAt));
  const Plan both =
      CallTrace(
          {above, {.call = Call::kPread, .file = "/d/a", .offset = 64, .size = 10, .result = 10}})
          .plan();
  EXPECT_THAT(calls_of(both), ElementsAre(Call::kPread));
}

TEST(Plan, DuplicatedDescriptorsAreClosedOnce) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kDup, .file = "/d/a", .result = 4},
                   {.call = Call::kClose, .file = "/d/a"},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 1, .result = 1},
                   {.call = Call::kClose, .file = "/d/a"}});
  const Plan plan = trace.plan();
  EXPECT_THAT(calls_of(plan), ElementsAre(Call::kOpen, Call::kRead, Call::kClose));
  EXPECT_EQ(plan.handles.size(), 1u);
}

TEST(Plan, ADescriptorThatIsOpenedAgainWasClosed) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kClose, .file = "/d/a"},
                   {.call = Call::kClose, .file = "/d/a"}});
  const Plan plan = trace.plan();
  EXPECT_FALSE(plan.handles[0].is_closed);  // by a step: the replay closes it at once
  EXPECT_TRUE(plan.handles[1].is_closed);
  EXPECT_EQ(plan.skipped.unmatched, 1u);
}

TEST(Plan, AFileUsedByTwoThreadsHasNoPosition) {
  CallTrace trace(
      {{.call = Call::kOpen, .file = "/d/a", .result = 3, .thread = 0},
       {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 1, .result = 1, .thread = 2},
       {.call = Call::kRead, .file = "/d/a", .offset = 1, .size = 1, .result = 1, .thread = 0}});
  const Plan plan = trace.plan();
  ASSERT_EQ(plan.handles.size(), 1u);
  EXPECT_TRUE(plan.handles[0].is_shared);
  ASSERT_EQ(plan.threads.size(), 2u);
  EXPECT_EQ(plan.threads[0].count, 2u);
  EXPECT_EQ(plan.threads[1].count, 1u);
}

TEST(Plan, FiltersSelectFunctionsSizesRanksAndFiles) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "/d/a", .offset = 10, .size = 99, .result = 0},
                   {.call = Call::kStat, .file = "/e/b"},
                   {.call = Call::kStat, .file = "/d/a", .thread = 1}});
  EXPECT_THAT(calls_of(trace.plan({.functions = *parse_functions("read")})),
              ElementsAre(Call::kRead, Call::kRead));
  EXPECT_THAT(calls_of(trace.plan({.functions = *parse_functions("stat,open")})),
              ElementsAre(Call::kOpen, Call::kStat, Call::kStat));
  EXPECT_THAT(calls_of(trace.plan({.size_min = 50})),
              ElementsAre(Call::kOpen, Call::kRead, Call::kStat, Call::kStat));
  EXPECT_THAT(calls_of(trace.plan({.selection = {.ranks = {{1, 1}}}})), ElementsAre(Call::kStat));
  const Plan below = trace.plan({.root = "/e"});
  EXPECT_THAT(calls_of(below), ElementsAre(Call::kStat));
  EXPECT_EQ(below.skipped.outside, 4u);
  EXPECT_EQ(below.relative(below.names.find("/e/b")), "b");
  EXPECT_THAT(calls_of(trace.plan({.files = {"/e/b", "/e/c"}})), ElementsAre(Call::kStat));
}

TEST(Plan, WordsAndRangesAreChecked) {
  EXPECT_TRUE(parse_functions("read,fread,mpiio").ok());
  EXPECT_THAT(parse_functions("raed").error().message(), testing::HasSubstr("did you mean 'read'"));
  EXPECT_FALSE(parse_functions("read,").ok());
  EXPECT_EQ(parse_size_range("4KiB..1MiB")->min, 4096u);
  EXPECT_EQ(parse_size_range("4KiB..1MiB")->max, 1u << 20);
  EXPECT_EQ(parse_size_range("..8")->max, 8u);
  EXPECT_EQ(parse_size_range("8..")->max, ~uint64_t{0});
  EXPECT_EQ(parse_size_range("8")->min, 8u);
  EXPECT_EQ(parse_size_range("8")->max, 8u);
  for (const std::string_view wrong : {"", "..", "9..8", "x..", "1..2..3"}) {
    EXPECT_FALSE(parse_size_range(wrong).ok()) << wrong;
  }
}

TEST(Plan, ReadsWithoutOffsetsContinueEachOther) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a"},
                   {.call = Call::kOpen, .file = "/d/b"},
                   {.call = Call::kRead, .file = "/d/a", .size = 10, .result = 10},
                   {.call = Call::kRead, .file = "/d/a", .size = 10, .result = 10},
                   {.call = Call::kWrite, .file = "/d/b", .size = 7, .result = 7}});
  const Plan plan = trace.plan();
  EXPECT_EQ(plan.handles.size(), 2u);
  EXPECT_EQ(path_of(plan, "/d/a").size_bytes, 20u);
  EXPECT_EQ(plan.steps[2].offset, wire::kNoOffset);
  EXPECT_EQ(plan.handles[1].flags & O_ACCMODE, static_cast<uint32_t>(O_RDWR));
}

TEST(Plan, SizesAboveFourGigabytesAreKeptInPages) {
  const uint64_t large = uint64_t{5} << 30;
  CallTrace trace({{.call = Call::kFread,
                    .file = "/d/a",
                    .offset = 0,
                    .size = large,
                    .result = static_cast<int64_t>(large)}});
  const Plan plan = trace.plan();
  EXPECT_EQ(plan.steps[0].size_bytes(), large);
  EXPECT_EQ(path_of(plan, "/d/a").size_bytes, large);
  EXPECT_EQ(plan.threads[0].buffer_bytes, large);
}

}  // namespace
}  // namespace millrace::replay
