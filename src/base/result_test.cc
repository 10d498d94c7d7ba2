#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace millrace {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return fail(Errc::kInvalidArgument, "{} is odd", number);
  return number / 2;
}

Result<int> quarter_of(int number) {
  ASSIGN_OR_RETURN(const int half, half_of(number));
  ASSIGN_OR_RETURN(const int quarter, half_of(half));
  return quarter;
}

Status check_even(int number) {
  RETURN_IF_ERROR(half_of(number));
  return {};
}

TEST(Result, HoldsAValue) {
  const Result<int> result = half_of(8);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 4);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = half_of(7);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Errc::kInvalidArgument);
  EXPECT_EQ(result.error().message(), "7 is odd");
}

TEST(Result, MacrosReturnTheFirstError) {
  EXPECT_EQ(*quarter_of(12), 3);
  EXPECT_EQ(quarter_of(6).error().message(), "3 is odd");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(3).error().message(), "3 is odd");
}

TEST(Result, WithinPrefixesTheMessage) {
  const Result<int> result = half_of(7).within("table.csv").within("rank 3");
  EXPECT_EQ(result.error().message(), "rank 3: table.csv: 7 is odd");
  EXPECT_EQ(*half_of(8).within("table.csv"), 4);
}

TEST(Result, HoldsMoveOnlyTypes) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> owned = *std::move(result);
  EXPECT_EQ(*owned, 5);
}

TEST(Result, OsErrorsSayWhatIsWrongAndWhatToDo) {
  const Error missing = fail_os(ENOENT, "cannot open");
  EXPECT_EQ(missing.code(), Errc::kNotFound);
  EXPECT_EQ(missing.message(), "cannot open: no such file or directory");
  const Error full = fail_os(ENOSPC, "cannot write");
  EXPECT_EQ(full.code(), Errc::kExhausted);
  EXPECT_EQ(
      full.message(),
      "cannot write: no space left on device; free some space (df -h, df -i) or choose another "
      "directory");
}

TEST(Result, OtherOsErrorsAreIoErrors) { EXPECT_EQ(fail_os(EIO, "cannot read").code(), Errc::kIo); }

}  // namespace
}  // namespace millrace
