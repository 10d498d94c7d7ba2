#include "trace/read/clock_doubt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSecond = 1'000'000'000;

// One rank on each of two hosts, of which the second one is aligned as given.
struct Job {
  std::vector<Session> sessions;
  std::vector<Process> processes;

  explicit Job(const std::string& alignment = "wall clock") {
    sessions.resize(2);
    sessions[0].host = "node1";
    sessions[0].alignment = "reference host";
    sessions[1].host = "node2";
    sessions[1].alignment = alignment;
    processes.resize(2);
    for (uint32_t i = 0; i < 2; ++i) {
      processes[i].session = i;
      processes[i].rank = static_cast<int32_t>(i);
      processes[i].world_size = 2;
      processes[i].start_ns = 100 * kSecond;
      processes[i].end_ns = 101 * kSecond;
    }
  }
  void move(uint32_t process, uint64_t begin_s, uint64_t end_s) {
    processes[process].start_ns = begin_s * kSecond;
    processes[process].end_ns = end_s * kSecond;
  }
  std::vector<std::string> doubts() const { return doubtful_clocks(sessions, processes); }
};

TEST(ClockDoubt, RanksThatBeginAndEndTogetherRaiseNone) {
  EXPECT_THAT(Job().doubts(), IsEmpty());
  EXPECT_THAT(doubtful_clocks({}, {}), IsEmpty());
}

TEST(ClockDoubt, AHostThatSeemsToRunLaterIsNamed) {
  Job job;
  job.move(1, 130, 131);
  EXPECT_THAT(job.doubts(), ElementsAre(HasSubstr("the ranks of node2 seem to run 30 s later "
                                                  "than those of node1, but nothing")));
  job.move(1, 60, 65);
  EXPECT_THAT(job.doubts(), ElementsAre(HasSubstr("36 s earlier than those of node1")));
}

TEST(ClockDoubt, ARankThatOnlyStartsOrEndsLaterRaisesNone) {
  Job job;
  job.move(0, 100, 200);
  job.move(1, 150, 200);
  EXPECT_THAT(job.doubts(), IsEmpty());
  job.move(1, 150, 170);
  EXPECT_THAT(job.doubts(), IsEmpty());
}

TEST(ClockDoubt, AClockThatMpiHasComparedRaisesNone) {
  Job job("MPI");
  job.move(1, 130, 131);
  EXPECT_THAT(job.doubts(), IsEmpty());
}

TEST(ClockDoubt, TwoJobsInOneDirectoryRaiseNone) {
  Job job;
  job.processes[1].rank = 0;
  job.move(1, 130, 131);
  EXPECT_THAT(job.doubts(), IsEmpty());
}

}  // namespace
}  // namespace millrace::trace
