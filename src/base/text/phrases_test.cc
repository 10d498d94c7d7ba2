#include "base/text/phrases.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Phrases, UsesTheSingularOnlyForOne) {
  EXPECT_EQ(counted(0, "file", "files"), "0 files");
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
  EXPECT_EQ(counted(12'000, "file", "files"), "12,000 files");
}

TEST(Phrases, ShowsATimeInUtcToTheSecond) {
  EXPECT_EQ(utc_text(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(utc_text(1'700'000'000'999'999'999), "2023-11-14 22:13:20 UTC");
}

}  // namespace
}  // namespace millrace
