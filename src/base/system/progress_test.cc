#include "base/system/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace millrace {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;

// Draws on a real terminal; the test reads its other end.
class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("COLUMNS");
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 24;
    ASSERT_EQ(openpty(&controller_, &terminal_, nullptr, nullptr, &size), 0);
  }

  void TearDown() override {
    close(controller_);
    close(terminal_);
  }

  // The kernel may delay what was written, but keeps the order. So everything before a mark that is
  // written now has been drawn.
  std::string drawn() {
    constexpr char kMark = '\x1e';
    EXPECT_EQ(write(terminal_, &kMark, 1), 1);
    std::string out;
    for (char byte = 0; read(controller_, &byte, 1) == 1 && byte != kMark;) out += byte;
    return out;
  }

  Progress::Options options(uint64_t total) {
    return {.label = "packing",
            .total = total,
            .counts_bytes = true,
            .fd = terminal_,
            .clock = &clock_};
  }

  FakeClock clock_;
  int controller_ = -1;
  int terminal_ = -1;
};

TEST_F(ProgressTest, ShowsShareRateAndTimeLeft) {
  Progress progress(options(4'000'000));
  clock_.advance(1s);
  progress.add(1'000'000);
  EXPECT_THAT(drawn(), HasSubstr("packing  [#####               ]  25 %  1 MB/s  3 s left"));
}

TEST_F(ProgressTest, DrawsAtMostTenTimesPerSecond) {
  Progress progress(options(1000));
  clock_.advance(150ms);
  progress.add(1);
  EXPECT_NE(drawn(), "");
  progress.add(1);
  clock_.advance(50ms);
  progress.add(1);
  EXPECT_EQ(drawn(), "");
  clock_.advance(60ms);
  progress.add(1);
  EXPECT_NE(drawn(), "");
}

TEST_F(ProgressTest, ErasesItselfAtTheEnd) {
  {
    Progress progress(options(1000));
    clock_.advance(1s);
    progress.add(1);
  }
  EXPECT_THAT(drawn(), EndsWith("\r\x1b[K"));
}

TEST_F(ProgressTest, ShowsTheActivityAtOnceEvenWithoutATotal) {
  Progress progress(options(0));
  progress.set_activity("writing");
  EXPECT_THAT(drawn(), HasSubstr("packing: writing"));
}

TEST_F(ProgressTest, WritesNothingWithoutATerminal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  {
    Progress::Options to_a_pipe = options(10);
    to_a_pipe.fd = ends[1];
    Progress progress(to_a_pipe);
    clock_.advance(1s);
    progress.add(5);
  }
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), -1);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ProgressTest, ThreadsMayReportConcurrently) {
  Progress progress(options(40'000));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) progress.add(1);
    });
  }
  for (auto& thread : threads) thread.join();
  clock_.advance(1s);
  progress.add(0);
  EXPECT_THAT(drawn(), HasSubstr("100 %"));
}

}  // namespace
}  // namespace millrace
