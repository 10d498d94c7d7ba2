// Checks the contract for every engine of this build, and what is specific to single engines.
#include "io/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/io/temporary_directory.h"
#include "io/engines.h"
#include "io/testing/engine_contract.h"
#include "io/testing/memory_engine.h"

namespace millrace::io {
namespace {

using testing::HasSubstr;

// Makes io_uring_setup fail with EPERM in this process.
void refuse_io_uring() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(rules), .filter = rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(90);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(91);
}

std::vector<ContractClause> all_clauses() {
  std::vector<ContractClause> clauses(contract().begin(), contract().end());
  clauses.insert(clauses.end(), contract_faults().begin(), contract_faults().end());
  return clauses;
}

Result<std::unique_ptr<Engine>> open_any(const std::string& name) {
  if (name == "memory") return std::unique_ptr<Engine>(std::make_unique<MemoryEngine>());
  return open_engine(name);
}

class EngineContract : public testing::TestWithParam<std::tuple<std::string, ContractClause>> {};

TEST_P(EngineContract, Holds) {
  const auto& [name, clause] = GetParam();
  auto engine = open_any(name);
#ifndef MILLRACE_HAVE_URING
  if (name == "uring") {
    ASSERT_FALSE(engine.ok());
    EXPECT_THAT(engine.error().message(), HasSubstr("liburing-dev"));
    return;
  }
#endif
  if (!engine.ok() && name == "uring") GTEST_SKIP() << engine.error().message();
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  EXPECT_EQ((*engine)->name(), name);
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok()) << directory.error().message();
  Ground ground{**engine, directory->path()};
  if (clause.needs_real_files && !ground.has_real_files()) return;
  const Status outcome = clause.check(ground);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message();
}

INSTANTIATE_TEST_SUITE_P(Of, EngineContract,
                         testing::Combine(testing::Values("auto", "posix", "direct", "mapped",
                                                          "uring", "memory"),
                                          testing::ValuesIn(all_clauses())),
                         [](const auto& tried) {
                           return std::get<0>(tried.param) + "_" +
                                  std::string(std::get<1>(tried.param).name);
                         });

TEST(OpenEngine, TheErrorForAnUnknownNameListsTheEngines) {
  const auto engine = open_engine("positx");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().message(),
            "unknown engine 'positx'; the engines are auto, posix, direct, mapped, uring; did you "
            "mean 'posix'?");
}

TEST(AutoEngine, HasBothWaysOrSaysWhyNot) {
  const auto engine = open_auto();
  ASSERT_TRUE(engine.ok());
  const EngineWays ways = (*engine)->ways();
  EXPECT_EQ(ways.one_at_a_time, "posix");
  const auto uring = open_uring();
  if (uring.ok()) {
    EXPECT_EQ(ways.in_flight, "uring");
    EXPECT_TRUE(ways.is_open_choice);
    EXPECT_EQ(ways.refusal, "");
  } else {
    EXPECT_EQ(ways.in_flight, "");
    EXPECT_FALSE(ways.is_open_choice);
    EXPECT_EQ(ways.refusal, uring.error().message());
  }
}

// In a child process, where io_uring is forbidden as by the seccomp filter of a container.
TEST(AutoEngine, FallsBackToPlainReadsIfTheKernelRefusesIoUring) {
  EXPECT_EXIT(
      {
        refuse_io_uring();
        const auto engine = open_auto();
        if (!engine.ok()) _exit(1);
        const EngineWays ways = (*engine)->ways();
        if (!ways.in_flight.empty() || ways.refusal.empty()) _exit(2);
        const auto queue = (*engine)->open_queue(4);
        if (!queue.ok() || (*queue)->capacity() != 4) _exit(3);
        _exit(open_uring().ok() ? 4 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(DirectEngine, TheErrorForAnUnsupportedFileSystemNamesAnotherEngine) {
  const auto engine = open_direct();
  ASSERT_TRUE(engine.ok());
  const auto reader = (*engine)->open("/proc/self/maps");
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code(), Errc::kUnsupported);
  EXPECT_EQ(reader.error().message(),
            "/proc/self/maps: the file system does not support direct I/O (O_DIRECT); use engine "
            "'posix'");
}

TEST(UringQueue, RefusesMoreReadsThanTheKernelAllows) {
  const auto engine = open_uring();
  if (!engine.ok()) GTEST_SKIP() << engine.error().message();
  const auto queue = (*engine)->open_queue(1'000'000);
  ASSERT_FALSE(queue.ok());
  EXPECT_THAT(queue.error().message(), HasSubstr("at most 32768"));
}

}  // namespace
}  // namespace millrace::io
