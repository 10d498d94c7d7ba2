#include "comm/process_comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/connect.h"
#include "comm/messages.h"
#include "comm/single.h"

namespace millrace::comm {
namespace {

using testing::HasSubstr;

// A Comm with its own thread, which answers questions.
struct Talking {
  Talking() : comm(of_this_process(single())), messages(*comm->open_messages()) {
    messages->serve(MessageTag{1}, [](Rank, std::string question) { return question + "!"; });
  }
  std::string ask() {
    const auto answer = messages->take(messages->ask(kFirstRank, MessageTag{1}, "there"));
    return answer.ok() ? *answer : answer.error().message();
  }

  std::unique_ptr<Comm> comm;
  std::unique_ptr<Messages> messages;
};

int exit_code_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);  // if it hangs, ctest's time limit ends the test
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessComm, DestructorsDoNotHangInAChild) {
  Talking ours;
  EXPECT_EQ(ours.ask(), "there!");
  const pid_t child = fork();
  if (child == 0) {
    ours.messages.reset();
    ours.comm.reset();
    _exit(7);
  }
  EXPECT_EQ(exit_code_of(child), 7);
  EXPECT_EQ(ours.ask(), "there!");
}

TEST(ProcessComm, EveryCallInAChildFailsAndSaysWhy) {
  Talking ours;
  const pid_t child = fork();
  if (child == 0) {
    std::string bytes;
    uint64_t count = 1;
    const Status outcomes[] = {
        ours.comm->barrier(),
        ours.comm->broadcast(bytes, kFirstRank),
        ours.comm->reduce(std::span(&count, 1), Fold::kSum, kFirstRank),
        ours.comm->reduce_to_all(std::span(&count, 1), Fold::kSum),
        ours.comm->agree({}),
        ours.messages->wait(ours.messages->send(kFirstRank, MessageTag{2}, {})),
        ours.messages->wait(ours.messages->receive(kFirstRank, MessageTag{2})),
    };
    for (const Status& outcome : outcomes) {
      if (outcome.ok() || outcome.error().message().find("was forked from") == std::string::npos) {
        _exit(1);
      }
    }
    const bool fails = !ours.comm->gather({}, kFirstRank).ok() && !ours.comm->open_messages().ok();
    _exit(fails && ours.ask().find("was forked from") != std::string::npos ? 0 : 2);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

TEST(ProcessComm, AChildReportsItsOwnError) {
  const auto comm = of_this_process(single());
  const pid_t child = fork();
  if (child == 0) {
    const Status told = comm->agree(fail(Errc::kNotFound, "a/b.mrt: is not there"));
    _exit(told.error().message() == "a/b.mrt: is not there" && comm->speaks() ? 0 : 1);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

TEST(ProcessComm, TheErrorNamesBothProcesses) {
  EXPECT_THAT(forked_error(4711).message(),
              HasSubstr(fmt::format("process {} was forked from process 4711", getpid())));
}

}  // namespace
}  // namespace millrace::comm
