#include "loader/pipeline/read_choice.h"

#include <gmock/gmock.h>

namespace millrace::loader::pipeline {
namespace {

using data::Epoch;
using std::chrono::microseconds;
using testing::IsEmpty;

const data::ReadWays kOpen = {
    .one_at_a_time = "posix", .in_flight = "uring", .is_open_choice = true};

// What a sample of 1,000 bytes costs a thread, for each of the two ways.
struct Machine {
  microseconds alone{10};
  microseconds flown{10};
  microseconds alone_cpu{10};
  microseconds flown_cpu{10};

  ReadCost cost(const ReadTurn& turn) const {
    const bool flies = turn.way == ReadWay::kInFlight;
    const uint64_t samples = std::min<uint64_t>(turn.sample_count, 64);
    return {.samples = samples,
            .bytes = samples * 1000,
            .elapsed = samples * (flies ? flown : alone),
            .cpu = samples * (flies ? flown_cpu : alone_cpu)};
  }
};

// Takes this many turns; returns how many had reads in flight.
uint64_t take_turns(ReadChoice& choice, const Machine& machine, Epoch epoch, uint64_t turns) {
  uint64_t flown = 0;
  std::optional<ReadTurn> turn;
  for (uint64_t i = 0; i < turns; ++i) {
    if (!turn) turn = choice.next_turn(epoch);
    flown += turn->way == ReadWay::kInFlight ? 1 : 0;
    if (!choice.report(*turn, machine.cost(*turn), epoch)) turn.reset();
  }
  return flown;
}

std::string chosen_on(const Machine& machine) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  take_turns(choice, machine, Epoch{0}, 20);
  EXPECT_EQ(choice.stats().trial_count, 1u);
  return choice.stats().engine;
}

TEST(ReadChoice, ChoosesTheFasterWay) {
  EXPECT_EQ(chosen_on({.alone = microseconds(100), .flown = microseconds(20)}), "uring");
  EXPECT_EQ(chosen_on({.alone = microseconds(20), .flown = microseconds(100)}), "posix");
}

TEST(ReadChoice, AmongEqualsPrefersLessCpuTimeAndThenPlainReads) {
  EXPECT_EQ(chosen_on({.alone = microseconds(100), .flown = microseconds(95)}), "posix");
  EXPECT_EQ(chosen_on({.alone = microseconds(100),
                       .flown = microseconds(105),
                       .alone_cpu = microseconds(90),
                       .flown_cpu = microseconds(50)}),
            "uring");
}

TEST(ReadChoice, IgnoresEachThreadsFirstTurnAndTheWorstOfEachWay) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  choice.add_thread();
  std::vector<ReadWay> ways;
  uint64_t counted_alone = 0;
  for (int i = 0; i < 12; ++i) {
    const ReadTurn turn = choice.next_turn(Epoch{0});
    ways.push_back(turn.way);
    Machine machine{.alone = microseconds(10), .flown = microseconds(20)};
    if (i < 2) machine.alone = microseconds(100'000);  // first touch of memory
    if (i >= 2 && turn.way == ReadWay::kOneAtATime && counted_alone++ == 0) {
      machine.alone = microseconds(5000);  // something else ran
    }
    choice.report(turn, machine.cost(turn), Epoch{0});
    if (choice.stats().trial_count > 0) break;
  }
  using enum ReadWay;
  EXPECT_THAT(ways,
              testing::ElementsAre(kOneAtATime, kOneAtATime, kInFlight, kInFlight, kOneAtATime,
                                   kOneAtATime, kInFlight, kInFlight, kOneAtATime));
  EXPECT_EQ(choice.stats().engine, "posix");
  EXPECT_NEAR(choice.stats().measured[0].bytes_per_second, 1e8, 1);
  EXPECT_NEAR(choice.stats().measured[1].bytes_per_second, 5e7, 1);
}

TEST(ReadChoice, DoesNotMeasureAgainWhileCostsStayTheSame) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  const Machine warm{.alone = microseconds(10), .flown = microseconds(12)};
  for (uint64_t epoch = 0; epoch < 20; ++epoch) take_turns(choice, warm, Epoch{epoch}, 200);
  EXPECT_EQ(choice.stats().trial_count, 1u);
}

TEST(ReadChoice, MeasuresAgainIfReadsBecomeSlowDuringAnEpoch) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  take_turns(choice, {.alone = microseconds(10), .flown = microseconds(12)}, Epoch{0}, 200);
  EXPECT_EQ(choice.stats().engine, "posix");
  take_turns(choice, {.alone = microseconds(200), .flown = microseconds(20)}, Epoch{0}, 40);
  EXPECT_EQ(choice.stats().engine, "uring");
  EXPECT_EQ(choice.stats().trial_count, 2u);
}

TEST(ReadChoice, MeasuresReadsInFlightAgainInALaterEpoch) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  take_turns(choice, {.alone = microseconds(100), .flown = microseconds(20)}, Epoch{0}, 1000);
  EXPECT_EQ(choice.stats().engine, "uring");
  // The cost in flight has not changed, so only a trial can tell.
  take_turns(choice, {.alone = microseconds(10), .flown = microseconds(20)}, Epoch{1}, 20);
  EXPECT_EQ(choice.stats().engine, "posix");
  EXPECT_EQ(choice.stats().trial_count, 2u);
}

TEST(ReadChoice, TrialsTakeAtMostATenthOfTheTime) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  std::chrono::nanoseconds all{};
  std::chrono::nanoseconds alone{};  // one at a time, which every trial includes
  const Machine cold{.alone = microseconds(700), .flown = microseconds(20)};
  for (uint64_t epoch = 0; epoch < 2000; ++epoch) {
    for (int i = 0; i < 10; ++i) {
      const ReadTurn turn = choice.next_turn(Epoch{epoch});
      const ReadCost cost = cold.cost(turn);
      all += cost.elapsed;
      if (turn.way == ReadWay::kOneAtATime) alone += cost.elapsed;
      choice.report(turn, cost, Epoch{epoch});
    }
  }
  EXPECT_GT(choice.stats().trial_count, 2u);
  EXPECT_LT(alone.count() * 9, all.count());
}

TEST(ReadChoice, MeasuresNothingWithoutAChoice) {
  const data::ReadWays only_alone = {.one_at_a_time = "posix", .refusal = "no io_uring"};
  const data::ReadWays better_flown = {.one_at_a_time = "posix", .in_flight = "uring"};
  struct Case {
    data::ReadWays ways;
    size_t depth;
    ReadWay way;
  };
  for (const Case& tried :
       {Case{{}, 32, ReadWay::kOneAtATime}, Case{only_alone, 32, ReadWay::kOneAtATime},
        Case{better_flown, 32, ReadWay::kInFlight}, Case{better_flown, 1, ReadWay::kOneAtATime},
        Case{kOpen, 1, ReadWay::kOneAtATime}}) {
    ReadChoice choice(tried.ways, tried.depth);
    const ReadTurn turn = choice.next_turn(Epoch{0});
    EXPECT_EQ(turn.way, tried.way);
    EXPECT_EQ(turn.sample_count, ~uint64_t{0});
    EXPECT_THAT(choice.stats().measured, IsEmpty());
    EXPECT_EQ(choice.stats().refusal, tried.ways.refusal);
  }
}

TEST(ReadChoice, DoesNotTryRefusedReadsAgain) {
  ReadChoice choice(kOpen, 32);
  choice.add_thread();
  choice.refuse("no rings are left");
  EXPECT_EQ(take_turns(choice, {.alone = microseconds(100)}, Epoch{0}, 50), 0u);
  EXPECT_EQ(choice.stats().engine, "posix");
  EXPECT_EQ(choice.stats().refusal, "no rings are left");
}

}  // namespace
}  // namespace millrace::loader::pipeline
