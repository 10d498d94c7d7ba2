// Tests what a case says of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"

namespace millrace::advise {
namespace {

using testing::HasSubstr;

TEST(DataFormat, IsTakenFromTheExtension) {
  EXPECT_EQ(first_rule({.extension = ".npz"}), "compressed-samples");
  EXPECT_EQ(first_rule({.extension = ".csv"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".jpg"}), "decode-bound");
  EXPECT_THAT(first(job_of({.extension = ".jpg"})).title(), HasSubstr("decoding .jpg"));
  EXPECT_EQ(first_rule({.extension = ".bin"}), "slow-transform");
  EXPECT_THAT(first(job_of({.extension = ".bin"})).title(), HasSubstr("the dataset's own code"));
}

TEST(DataFormat, IsWhatTheBytesSayIfTheNameSaysNothing) {
  EXPECT_EQ(first_rule({.extension = ".mgz"}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".mgz", .content = "gzip"}), "compressed-samples");
  EXPECT_EQ(first_rule({.extension = ".mgz", .content = "text"}), "text-parsing");
  // Names that may mean something else.
  EXPECT_EQ(first_rule({.extension = ".dat"}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".dat", .content = "text"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".npz", .content = "zip stored"}), "slow-transform");
}

}  // namespace
}  // namespace millrace::advise
