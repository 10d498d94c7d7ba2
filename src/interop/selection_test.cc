#include "interop/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interop/testing/sample_trace.h"

namespace millrace::interop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Selection, ReadsRanksAndRanges) {
  const auto ranks = parse_ranks("0,3-5");
  ASSERT_TRUE(ranks.ok());
  ASSERT_EQ(ranks->size(), 2u);
  EXPECT_EQ((*ranks)[0].last, 0);
  EXPECT_EQ((*ranks)[1].first, 3);
  EXPECT_EQ((*ranks)[1].last, 5);
  for (const std::string_view wrong : {"", "a", "-1", "3-", "5-3", "1,,2", "99999999999"}) {
    EXPECT_FALSE(parse_ranks(wrong).ok()) << wrong;
  }
}

TEST(Selection, ReadsLevels) {
  EXPECT_EQ(*parse_levels("posix,app"), 1u << 1 | 1u << 5);
  EXPECT_THAT(parse_levels("posx").error().message(), HasSubstr("'posx' is not a level"));
}

class SelectionOfTrace : public testing::Test {
 protected:
  SelectionOfTrace() {
    const uint32_t session = sample_.writer().add_session({.host = "h"});
    for (const int32_t rank : {-1, 0, 1}) {
      const auto thread = sample_.add_thread(
          {.session = session, .pid = static_cast<uint32_t>(10 + rank), .rank = rank}, 1);
      sample_.append(
          {call(thread, 1000, 1100),
           call(thread, 1200, 1500),
           {.begin_ns = 1300, .end_ns = 1300, .thread = thread, .call = wire::Call::kMark}});
    }
  }

  static Event call(trace::ThreadIndex thread, uint64_t begin_ns, uint64_t end_ns) {
    return {.begin_ns = begin_ns, .end_ns = end_ns, .thread = thread, .call = wire::Call::kRead};
  }

  std::vector<uint64_t> begins(const Selection& selection) {
    const trace::Trace trace = sample_.open();
    std::vector<uint64_t> found;
    EXPECT_TRUE(visit_events(trace, selection, [&](const Event& event) -> Status {
                  found.push_back(event.begin_ns);
                  return {};
                }).ok());
    return found;
  }

  SampleTrace sample_;
};

TEST_F(SelectionOfTrace, SelectsARank) {
  EXPECT_THAT(begins({.ranks = {{1, 5}}}), ElementsAre(1000, 1200, 1300));
}

TEST_F(SelectionOfTrace, SelectsALevel) {
  EXPECT_THAT(begins({.ranks = {{0, 0}}, .levels = *parse_levels("app")}), ElementsAre(1300));
}

TEST_F(SelectionOfTrace, SelectsEventsThatOverlapTheTimeSinceTheStart) {
  EXPECT_THAT(begins({.from_ns = 100, .until_ns = 300, .ranks = {{0, 0}}}), ElementsAre(1200));
}

TEST_F(SelectionOfTrace, SelectsAMarkAtTheBegin) {
  EXPECT_THAT(begins({.from_ns = 300, .until_ns = 301, .ranks = {{0, 0}}}),
              ElementsAre(1200, 1300));
}

TEST_F(SelectionOfTrace, SelectsEverythingByDefault) { EXPECT_EQ(begins({}).size(), 9u); }

}  // namespace
}  // namespace millrace::interop
