#include "store/job/program_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

TEST(StoreEnvironment, TheLibraryComesAfterThoseThatAreThere) {
  EXPECT_EQ(preload_with("", "/lib/s.so"), "/lib/s.so");
  EXPECT_EQ(preload_with("/lib/trace.so", "/lib/s.so"), "/lib/trace.so:/lib/s.so");
  EXPECT_EQ(preload_with("/lib/s.so", "/lib/s.so"), "/lib/s.so");
  EXPECT_EQ(preload_with("/lib/trace.so:/lib/s.so", "/lib/s.so"), "/lib/trace.so:/lib/s.so");
}

TEST(StoreEnvironment, TheListOfOpenMpiKeepsWhatTheUserForwards) {
  const std::string ours = "MILLRACE_STORE=/n;LD_PRELOAD=/s.so";
  EXPECT_EQ(forwarded_list("", "/n", "/s.so"), ours);
  EXPECT_EQ(forwarded_list("A=1", "/n", "/s.so"), "A=1;" + ours);
  EXPECT_EQ(forwarded_list("A=1;MILLRACE_STORE=/old;LD_PRELOAD=/s.so", "/n", "/s.so"),
            "A=1;" + ours);
}

TEST(StoreEnvironment, AShellTakesAnyTextLiterally) {
  EXPECT_EQ(shell_quoted("a $b `c`"), "'a $b `c`'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

class StoreProgram : public StoreCase {};

TEST_F(StoreProgram, GetsTheStoreOfItsNodeInPlaceOfAnother) {
  ::setenv("MILLRACE_STORE", "/another", 1);
  const auto entries = program_environment(top_, "/lib/s.so");
  ::unsetenv("MILLRACE_STORE");
  EXPECT_THAT(entries, Contains("MILLRACE_STORE=" + top_.string()));
  EXPECT_THAT(entries, Not(Contains("MILLRACE_STORE=/another")));
  EXPECT_THAT(entries, Contains(StartsWith("LD_PRELOAD=")).Times(1));
}

TEST_F(StoreProgram, OnAHostWithoutServiceOnlyForwards) {
  ::unsetenv("SLURM_JOB_ID");
  const auto entries = program_environment(top_ / "nothing", "/lib/s.so");
  EXPECT_THAT(entries, Not(Contains(StartsWith("MILLRACE_STORE="))));
  EXPECT_THAT(entries, Contains(StartsWith("OMPI_MCA_")));
}

}  // namespace
}  // namespace millrace::store
