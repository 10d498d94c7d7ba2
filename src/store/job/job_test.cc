#include "store/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "store/job/node_report.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StoreJob, SaysWhatWasLostAndNothingElse) {
  wire::StoreCounters counters{};
  EXPECT_THAT(loss_lines(counters, "/shared/data"), IsEmpty());
  counters.fallbacks = 2;
  counters.errors = 1;
  EXPECT_THAT(loss_lines(counters, "/shared/data"),
              ElementsAre("2 files were read from /shared/data instead of the store",
                          "1 error while files were made or opened"));
}

class StoreJobNode : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    ::unsetenv("MILLRACE_STORE");
  }
};

TEST_F(StoreJobNode, IsNamedOrTheOnlyOne) {
  const auto none = choose_node({.node = {}, .local = top_});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message(), HasSubstr("start one with `millrace store up`"));
  ::setenv("MILLRACE_STORE", "/nowhere", 1);
  const auto of_job = choose_node({.node = {}, .local = top_});
  ::unsetenv("MILLRACE_STORE");
  ASSERT_FALSE(of_job.ok());
  EXPECT_THAT(of_job.error().message(), testing::StartsWith("MILLRACE_STORE: "));
  EXPECT_TRUE(list_nodes({.node = {}, .local = top_})->empty());
  EXPECT_FALSE(list_nodes({.node = "/nowhere", .local = top_}).ok());
}

TEST_F(StoreJobNode, WithoutATableHasNoPeers) {
  const auto peers = find_peers(top_);
  ASSERT_TRUE(peers.ok());
  EXPECT_EQ(*peers, nullptr);
}

TEST_F(StoreJobNode, CountsWhatEachServiceHasDoneAndNamesTheSilentOnes) {
  JobPlaces places;
  places.make(2);
  ASSERT_FALSE(HasFatalFailure());
  Peers first(places.options(0));
  wire::StoreState state{};
  state.counters.materialised = 7;
  first.serve(wire::PeerKind::kStatus, [&](Rank, ByteView) -> Result<PeerAnswer> {
    return PeerAnswer{.bytes = std::string(text_of(std::as_bytes(std::span(&state, 1)))),
                      .view = {}};
  });
  ASSERT_TRUE(first.start().ok());
  places.listeners.clear();  // nobody listens for the second

  const auto peers = find_peers(top_, table_text(places.table));
  ASSERT_TRUE(peers.ok()) << peers.error().message();
  const auto counted = count_peers(**peers);
  ASSERT_EQ(counted.size(), 2u);
  ASSERT_TRUE(counted[0].counters.has_value());
  EXPECT_EQ(counted[0].counters->materialised, 7u);
  EXPECT_FALSE(counted[1].counters.has_value());
}

}  // namespace
}  // namespace millrace::store
