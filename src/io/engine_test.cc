// The contract, held by every engine of this build, and what is special to one of them.
#include "io/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_directory.h"
#include "io/engine_contract.h"
#include "io/engines.h"

namespace millrace::io {
namespace {

using testing::HasSubstr;

std::vector<ContractClause> all_clauses() {
  std::vector<ContractClause> clauses(contract().begin(), contract().end());
  clauses.insert(clauses.end(), contract_faults().begin(), contract_faults().end());
  return clauses;
}

class EngineContract : public testing::TestWithParam<std::tuple<std::string, ContractClause>> {};

TEST_P(EngineContract, Holds) {
  const auto& [name, clause] = GetParam();
  auto engine = open_engine(name);
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
                         testing::Combine(testing::Values("posix", "direct", "mapped", "uring",
                                                          "memory"),
                                          testing::ValuesIn(all_clauses())),
                         [](const auto& tried) {
                           return std::get<0>(tried.param) + "_" +
                                  std::string(std::get<1>(tried.param).name);
                         });

TEST(OpenEngine, AnUnknownNameListsThoseThereAre) {
  const auto engine = open_engine("positx");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().message(),
            "there is no engine 'positx' among posix, direct, mapped, uring, memory; did you mean "
            "'posix'?");
}

TEST(DirectEngine, AFileSystemThatRefusesIsNamedWithTheEngineToUse) {
  const auto engine = open_direct();
  ASSERT_TRUE(engine.ok());
  const auto reader = (*engine)->open("/proc/self/maps");
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code(), Errc::kUnsupported);
  EXPECT_EQ(reader.error().message(),
            "/proc/self/maps: its file system refuses direct I/O (O_DIRECT); use the engine "
            "'posix' here");
}

TEST(UringQueue, MoreReadsThanTheKernelTakesAreRefused) {
  const auto engine = open_uring();
  if (!engine.ok()) GTEST_SKIP() << engine.error().message();
  const auto queue = (*engine)->open_queue(1'000'000);
  ASSERT_FALSE(queue.ok());
  EXPECT_THAT(queue.error().message(), HasSubstr("at most 32768"));
}

}  // namespace
}  // namespace millrace::io
