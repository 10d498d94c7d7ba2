#include "hook/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::hook {
namespace {

using testing::UnorderedElementsAre;

// An environment as passed to exec.
class Entries {
 public:
  Entries(std::initializer_list<std::string> entries) : texts_(entries) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::vector<std::string> completed(const Environment& environment, Entries entries) {
  std::vector<char> memory(environment.missing_bytes(entries.get()));
  char* const* all =
      memory.empty() ? entries.get() : environment.fill(entries.get(), memory.data());
  std::vector<std::string> out;
  for (; *all != nullptr; ++all) out.emplace_back(*all);
  return out;
}

Environment remembered() {
  Environment environment;
  Entries start{"HOME=/root", "TOOL_DIR=/t", "TOOL=1", "TOOL_LEVELS=posix"};
  environment.remember("/lib/tool.so", "TOOL", "TOOL_", start.get());
  return environment;
}

TEST(Environment, AnEmptyEnvironmentGetsEverything) {
  EXPECT_THAT(completed(remembered(), {}),
              UnorderedElementsAre("LD_PRELOAD=/lib/tool.so", "TOOL_DIR=/t", "TOOL_LEVELS=posix"));
}

TEST(Environment, ACompleteEnvironmentIsLeftAlone) {
  Entries entries{"LD_PRELOAD=/lib/tool.so", "TOOL_DIR=/t", "TOOL_LEVELS=posix"};
  EXPECT_EQ(remembered().missing_bytes(entries.get()), 0u);
}

TEST(Environment, WhatTheProgramChangedStaysChanged) {
  EXPECT_THAT(
      completed(remembered(), {"TOOL_DIR=/other", "LD_PRELOAD=/lib/tool.so"}),
      UnorderedElementsAre("TOOL_DIR=/other", "LD_PRELOAD=/lib/tool.so", "TOOL_LEVELS=posix"));
}

TEST(Environment, OtherPreloadedLibrariesStayBehindOurs) {
  EXPECT_THAT(
      completed(remembered(), {"LD_PRELOAD=/x.so /y.so", "TOOL_DIR=/t", "TOOL_LEVELS=a"}),
      UnorderedElementsAre("LD_PRELOAD=/lib/tool.so:/x.so /y.so", "TOOL_DIR=/t", "TOOL_LEVELS=a"));
}

TEST(Environment, APathThatOnlyBeginsLikeOursIsAnotherLibrary) {
  EXPECT_THAT(completed(remembered(), {"LD_PRELOAD=/lib/tool.so.1", "TOOL_DIR=/t", "TOOL_LEVELS="}),
              testing::Contains("LD_PRELOAD=/lib/tool.so:/lib/tool.so.1"));
}

TEST(Environment, AUserCanSwitchItOff) {
  Entries entries{"TOOL=0"};
  EXPECT_EQ(remembered().missing_bytes(entries.get()), 0u);
}

TEST(Environment, TheEnvironmentMayBeNull) {
  const Environment environment = remembered();
  std::vector<char> memory(environment.missing_bytes(nullptr));
  ASSERT_FALSE(memory.empty());
  EXPECT_STREQ(environment.fill(nullptr, memory.data())[0], "TOOL_DIR=/t");
}

TEST(Environment, AddingAVariableAgainReplacesItsValue) {
  Environment environment = remembered();
  environment.add("TOOL_DIR", "/new");
  environment.add("TOOL_SESSION", "/s");
  EXPECT_THAT(completed(environment, {}),
              UnorderedElementsAre("LD_PRELOAD=/lib/tool.so", "TOOL_DIR=/new", "TOOL_LEVELS=posix",
                                   "TOOL_SESSION=/s"));
}

}  // namespace
}  // namespace millrace::hook
