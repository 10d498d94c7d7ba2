#include "base/system/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <unistd.h>

namespace millrace {
namespace {

// A real terminal of 120 columns with an environment of its own.
class TerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    winsize size{};
    size.ws_col = 120;
    size.ws_row = 40;
    ASSERT_EQ(openpty(&controller_, &terminal_, nullptr, nullptr, &size), 0);
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    unsetenv("COLUMNS");
  }

  void TearDown() override {
    close(controller_);
    close(terminal_);
    unsetenv("NO_COLOR");
    unsetenv("COLUMNS");
  }

  int controller_ = -1;
  int terminal_ = -1;
};

TEST_F(TerminalTest, ARealTerminalHasColoursAndItsWidth) {
  const Terminal terminal = inspect_terminal(terminal_);
  EXPECT_TRUE(terminal.is_terminal);
  EXPECT_TRUE(terminal.color);
  EXPECT_TRUE(terminal.utf8);
  EXPECT_EQ(terminal.columns, 120u);
}

TEST_F(TerminalTest, NoColorAndDumbTerminalsDisableColours) {
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(inspect_terminal(terminal_).color);
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(inspect_terminal(terminal_).color);
}

TEST_F(TerminalTest, AnEmptyNoColorCountsAsUnset) {
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(inspect_terminal(terminal_).color);
}

TEST_F(TerminalTest, ColumnsFromTheEnvironmentTakePrecedence) {
  setenv("COLUMNS", "60", 1);
  EXPECT_EQ(inspect_terminal(terminal_).columns, 60u);
}

TEST_F(TerminalTest, APipeIsNotATerminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Terminal terminal = inspect_terminal(ends[1]);
  EXPECT_FALSE(terminal.is_terminal);
  EXPECT_FALSE(terminal.color);
  EXPECT_EQ(terminal.columns, 80u);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(TerminalTest, DetectsLocalesThatAreNotUtf8) {
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(inspect_terminal(terminal_).utf8);
}

TEST(Styled, AddsEscapeSequencesOnlyWithColours) {
  EXPECT_EQ(styled("ok", Style::kGood, true), "\x1b[32mok\x1b[0m");
  EXPECT_EQ(styled("ok", Style::kGood, false), "ok");
  EXPECT_EQ(styled("ok", Style::kPlain, true), "ok");
}

}  // namespace
}  // namespace millrace
