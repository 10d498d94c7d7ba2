#include "bench/run/run_log.h"

#include <gmock/gmock.h>

#include "base/io/temporary_directory.h"

namespace millrace::bench {
namespace {

using testing::MatchesRegex;

TEST(RunLog, AppendsALineForEachLineOfText) {
  const auto directory = *TemporaryDirectory::create();
  const auto path = directory.path() / "run.log";
  RunLog::open(path)->add("epoch 1 begins");
  RunLog::open(path)->warn("one\n\ntwo\n");
  EXPECT_THAT(*read_file(path), MatchesRegex("\\[INFO\\] .* UTC epoch 1 begins\n"
                                             "\\[WARNING\\] .* UTC one\n"
                                             "\\[WARNING\\] .* UTC two\n"));
}

TEST(RunLog, GoesNowhereWithoutAFile) {
  RunLog().add("lost");
  EXPECT_FALSE(RunLog::open("/dev/null/run.log").ok());
}

}  // namespace
}  // namespace millrace::bench
