#include "comm/lifeline/lifeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/system/clock.h"

namespace millrace::comm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

using Lifelines = std::vector<std::unique_ptr<Lifeline>>;

// Connected ranks in one process. Their names differ only by the rank.
Lifelines connected_by(LifelineOptions options) {
  const uint32_t size = options.size;
  Lifelines lifelines(size);
  options.patience = 600s;
  lifelines[0] = *Lifeline::open(options);
  const std::string invitation = lifelines[0]->invitation();
  std::vector<std::thread> threads;
  for (uint32_t rank = 1; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      LifelineOptions own = options;
      own.rank = static_cast<Rank>(rank);
      own.takes_sigterm = false;
      auto joined = Lifeline::join(own, invitation);
      ASSERT_TRUE(joined.ok()) << joined.error().message();
      lifelines[rank] = *std::move(joined);
    });
  }
  EXPECT_TRUE(lifelines[0]->admit().ok());
  for (std::thread& thread : threads) thread.join();
  return lifelines;
}

Lifelines connected(uint32_t size) { return connected_by({.size = size}); }

// If something never comes, ctest's time limit ends the test.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

LostName wait_for_loss(const Lifeline& lifeline) {
  wait_until([&] { return lifeline.lost().has_value(); });
  return *lifeline.lost();
}

TEST(Lifeline, AllOthersLearnOfARankThatEnds) {
  auto lifelines = connected(4);
  lifelines[2].reset();
  for (const size_t other : {0, 1, 3}) {
    const LostName lost = wait_for_loss(*lifelines[other]);
    EXPECT_EQ(lost.rank, Rank{2}) << other;
    EXPECT_THAT(loss_error(lost).message(), HasSubstr("rank 2 (process "));
  }
}

TEST(Lifeline, ASilentHostIsNotTakenForAProcessThatEnded) {
  const RankName name = {.rank = Rank{2}, .pid = 7, .host = "node3"};
  EXPECT_THAT(loss_error({name, true}).message(),
              HasSubstr("rank 2 (process 7 on node3) does not answer any more"));
  EXPECT_THAT(loss_error({name, true}).message(), Not(HasSubstr("memory")));
  EXPECT_THAT(loss_error({name}).message(), HasSubstr("ended unexpectedly"));
}

TEST(Lifeline, TheLossOfRankZeroIsNoticed) {
  auto lifelines = connected(3);
  lifelines[0].reset();
  EXPECT_EQ(wait_for_loss(*lifelines[1]).rank, Rank{0});
  EXPECT_EQ(wait_for_loss(*lifelines[2]).rank, Rank{0});
}

// A connection ends when the last process that holds it has ended.
TEST(Lifeline, ALossIsNoticedAlthoughAForkedChildLivesOn) {
  auto lifelines = connected(3);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted test leaves nothing behind
    while (true) pause();
  }
  lifelines[2].reset();
  EXPECT_EQ(wait_for_loss(*lifelines[0]).rank, Rank{2});
  EXPECT_EQ(wait_for_loss(*lifelines[1]).rank, Rank{2});
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(Lifeline, RanksThatLeaveTogetherAreNotLost) {
  auto lifelines = connected(5);
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (auto& lifeline : lifelines) {
    threads.emplace_back([&whole, &lifeline] {
      if (lifeline->leave()) ++whole;
      lifeline.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, 5);
}

TEST(Lifeline, LeaveFailsIfAnotherRankIsLost) {
  auto lifelines = connected(3);
  std::thread leaving([&] { EXPECT_FALSE(lifelines[1]->leave()); });
  std::this_thread::sleep_for(20ms);
  lifelines[2].reset();
  EXPECT_FALSE(lifelines[0]->leave());
  leaving.join();
}

TEST(Lifeline, ALossThatNobodyTakesCallsOnLoss) {
  std::atomic<int> told = 0;
  std::atomic<int> spoken = 0;
  auto lifelines = connected_by(
      {.size = 3, .taking_time = 0ms, .speaking_time = 0ms, .on_loss = [&](const LostRank& loss) {
         EXPECT_THAT(loss.error.message(), HasSubstr("rank 1 "));
         if (loss.speaks) ++spoken;
         ++told;
       }});
  lifelines[0]->start_telling();
  lifelines[2]->start_telling();
  lifelines[1].reset();
  wait_until([&] { return told == 2; });
  EXPECT_EQ(spoken, 1);
}

// A launcher that sees a rank end ends the others, so the speaker must have reported first.
TEST(Lifeline, TheOthersStayUntilTheSpeakerHasEnded) {
  std::atomic<int> spoken = 0;
  std::atomic<int> silent = 0;
  auto lifelines = connected_by(
      {.size = 4, .taking_time = 10ms, .speaking_time = 60s, .on_loss = [&](const LostRank& loss) {
         ++(loss.speaks ? spoken : silent);
       }});
  for (auto& lifeline : lifelines) lifeline->start_telling();
  lifelines[3].reset();
  wait_until([&] { return spoken > 0; });
  wait_for_loss(*lifelines[2]);
  lifelines[2]->take_lost();
  std::atomic<bool> left = false;
  std::thread leaving([&] {
    lifelines[2]->await_speaker();
    left = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(spoken, 1);
  EXPECT_EQ(silent, 0);
  EXPECT_FALSE(left);
  lifelines[0].reset();
  leaving.join();
  wait_until([&] { return silent > 0; });
  EXPECT_EQ(silent, 1);
}

TEST(Lifeline, TheOthersStayForAWhileIfTheyCannotSeeTheSpeaker) {
  auto lifelines = connected_by({.size = 3, .speaking_time = 100ms});
  lifelines[0].reset();
  wait_for_loss(*lifelines[2]);
  const auto before = monotonic_now();
  lifelines[2]->await_speaker();
  EXPECT_GE(monotonic_now() - before, 100ms);
}

TEST(Lifeline, TakeLostWaitsWhileOnLossRuns) {
  std::atomic<bool> is_told = false;
  std::atomic<bool> was_told = false;
  auto lifelines = connected_by({.size = 2, .taking_time = 0ms, .on_loss = [&](const LostRank&) {
                                   is_told = true;
                                   std::this_thread::sleep_for(100ms);
                                   was_told = true;
                                 }});
  lifelines[0]->start_telling();
  lifelines[1].reset();
  wait_until([&] { return is_told.load(); });
  EXPECT_TRUE(lifelines[0]->take_lost());
  EXPECT_TRUE(was_told);
}

TEST(Lifeline, AfterSigtermALossIsReportedSoon) {
  std::atomic<bool> told = false;
  auto lifelines = connected_by(
      {.size = 2, .taking_time = 60s, .takes_sigterm = true, .on_loss = [&](const LostRank&) {
         told = true;
       }});
  lifelines[0]->start_telling();
  lifelines[1].reset();
  wait_for_loss(*lifelines[0]);
  raise(SIGTERM);
  wait_until([&] { return told.load(); });
  EXPECT_TRUE(told);
}

// The speaker ends, so rank 1 would report the loss at once if it had not been taken.
TEST(Lifeline, ALossThatIsTakenDoesNotCallOnLoss) {
  std::atomic<int> told = 0;
  auto lifelines = connected_by(
      {.size = 3, .taking_time = 600s, .speaking_time = 600s, .on_loss = [&](const LostRank&) {
         ++told;
       }});
  lifelines[1]->start_telling();
  lifelines[2].reset();
  wait_for_loss(*lifelines[1]);
  EXPECT_EQ(lifelines[1]->take_lost()->rank, Rank{2});
  lifelines[0].reset();
  lifelines[1]->await_speaker();
  lifelines[1].reset();  // its thread has acted by then
  EXPECT_EQ(told, 0);
}

TEST(Lifeline, ARankThatDoesNotConnectIsNamed) {
  auto hub = *Lifeline::open({.size = 3, .patience = 50ms});
  const Status admitted = hub->admit();
  ASSERT_FALSE(admitted.ok());
  EXPECT_THAT(admitted.error().message(), HasSubstr("rank 1 did not connect"));
  EXPECT_THAT(admitted.error().message(), HasSubstr("MILLRACE_LIFELINE=off"));
}

TEST(Lifeline, AnUnreachableHubIsNamedWithItsAddresses) {
  std::string invitation;
  {
    auto hub = *Lifeline::open({.size = 2, .patience = 50ms});
    invitation = hub->invitation();
  }
  const auto joined = Lifeline::join({.rank = Rank{1}, .size = 2, .patience = 1s}, invitation);
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().message(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(joined.error().message(), HasSubstr("refused"));
}

}  // namespace
}  // namespace millrace::comm
