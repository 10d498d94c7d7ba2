#include "hook/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::hook {
namespace {

TEST(Glob, PlainTextMatchesItself) {
  EXPECT_TRUE(glob_matches("/data/a", "/data/a"));
  EXPECT_FALSE(glob_matches("/data/a", "/data/ab"));
  EXPECT_FALSE(glob_matches("/data/ab", "/data/a"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
}

TEST(Glob, AStarMatchesAnythingIncludingSlashes) {
  EXPECT_TRUE(glob_matches("/data/*", "/data/train/0/a.jpg"));
  EXPECT_TRUE(glob_matches("*.jpg", "/data/train/0/a.jpg"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_matches("/data/*", "/dat"));
  EXPECT_TRUE(glob_matches("**", "abc"));
}

TEST(Glob, AQuestionMarkMatchesOneCharacter) {
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
}

TEST(Glob, SetsAndRangesMatchAndCanBeNegated) {
  EXPECT_TRUE(glob_matches("shard-[0-9].tar", "shard-7.tar"));
  EXPECT_FALSE(glob_matches("shard-[0-9].tar", "shard-x.tar"));
  EXPECT_TRUE(glob_matches("[!a-c]", "d"));
  EXPECT_FALSE(glob_matches("[!a-c]", "b"));
  EXPECT_TRUE(glob_matches("[]]", "]"));
  EXPECT_TRUE(glob_matches("[a", "[a")) << "an unclosed set is plain text";
}

TEST(Glob, ABackslashQuotesTheNextCharacter) {
  EXPECT_TRUE(glob_matches("a\\*b", "a*b"));
  EXPECT_FALSE(glob_matches("a\\*b", "aXb"));
  EXPECT_TRUE(glob_matches("a\\", "a\\"));
}

TEST(Glob, ManyStarsStayFast) {
  const std::string text(4000, 'a');
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*a*b", text));
}

}  // namespace
}  // namespace millrace::hook
