#include "analyze/roles.h"

#include <gtest/gtest.h>

namespace millrace::analyze {
namespace {

TEST(Roles, KnowsTheNamesOfTheGuideWhateverTheirCase) {
  EXPECT_EQ(role_of_name("batch_wait", {}), Role::kWait);
  EXPECT_EQ(role_of_name("Forward", {}), Role::kCompute);
  EXPECT_EQ(role_of_name("checkpoint", {}), Role::kCheckpoint);
}

TEST(Roles, KnowsTheNamesOfOtherTools) {
  EXPECT_EQ(role_of_name("epoch.block", {}), Role::kEpoch);
  EXPECT_EQ(role_of_name("fetch.iter", {}), Role::kWait);
  EXPECT_EQ(role_of_name("NPZReader.read_index", {}), Role::kRead);
}

TEST(Roles, LeavesOtherNamesAlone) {
  EXPECT_EQ(role_of_name("", {}), Role::kNone);
  EXPECT_EQ(role_of_name("computer", {}), Role::kNone);
  EXPECT_EQ(role_of_name("prefetch", {}), Role::kNone);
}

TEST(Roles, AUsersRuleComesFirst) {
  const auto rule = parse_role_rule("communicate=fwd_*");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(role_of_name("FWD_layer3", {*rule}), Role::kCommunicate);
  const auto over = parse_role_rule("none=compute");
  ASSERT_TRUE(over.ok());
  EXPECT_EQ(role_of_name("compute", {*over}), Role::kNone);
}

TEST(Roles, StarsStandForAnything) {
  const auto rule = parse_role_rule("decode=*jp*g*");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(role_of_name("libjpeg", {*rule}), Role::kDecode);
  EXPECT_EQ(role_of_name("jpg", {*rule}), Role::kDecode);
  EXPECT_EQ(role_of_name("jp", {*rule}), Role::kNone);
}

TEST(Roles, RejectsInvalidRules) {
  for (const char* text : {"", "compute", "compute=", "=x", "working=x"}) {
    EXPECT_FALSE(parse_role_rule(text).ok()) << text;
  }
}

}  // namespace
}  // namespace millrace::analyze
