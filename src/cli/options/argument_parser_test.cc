#include "cli/options/argument_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

using testing::ElementsAre;

Command trace_like() {
  return {.name = "trace",
          .options = {{.name = "output", .letter = 'o', .value = "DIR"},
                      {.name = "include", .value = "GLOB", .repeatable = true},
                      {.name = "level", .value = "LEVEL", .choices = {"posix", "stdio"}},
                      {.name = "size", .value = "SIZE", .check = check_bytes},
                      {.name = "all", .letter = 'a'},
                      {.name = "verbose", .letter = 'v'}},
          .positionals = {{.name = "FILE", .help = "what to read"},
                          {.name = "MORE", .required = false, .repeatable = true}}};
}

std::string error_of(std::vector<std::string> words) {
  const Command command = trace_like();
  const auto arguments = ArgumentParser(command).parse(words);
  return arguments.ok() ? "no error" : arguments.error().message();
}

TEST(ArgumentParser, TakesEverySpellingInAnyOrder) {
  const Command command = trace_like();
  const auto arguments = ArgumentParser(command).parse(
      {"a", "--output=x", "b", "--include", "*.npz", "--include=*.csv", "-av", "c"});
  ASSERT_TRUE(arguments.ok()) << arguments.error().message();
  EXPECT_EQ(arguments->value("output"), "x");
  EXPECT_THAT(arguments->values("include"), ElementsAre("*.npz", "*.csv"));
  EXPECT_TRUE(arguments->has("all"));
  EXPECT_TRUE(arguments->has("verbose"));
  EXPECT_FALSE(arguments->has("level"));
  EXPECT_THAT(arguments->positionals(), ElementsAre("a", "b", "c"));
}

TEST(ArgumentParser, ALetterTakesItsValueAttachedOrNext) {
  const Command command = trace_like();
  EXPECT_EQ(ArgumentParser(command).parse({"f", "-ox"})->value("output"), "x");
  EXPECT_EQ(ArgumentParser(command).parse({"f", "-o", "x"})->value("output"), "x");
  EXPECT_EQ(ArgumentParser(command).parse({"f", "-aox"})->value("output"), "x");
}

TEST(ArgumentParser, ADashAloneIsAnArgumentAndDashesEndOptions) {
  const Command command = trace_like();
  EXPECT_THAT(ArgumentParser(command).parse({"-", "--", "--all"})->positionals(),
              ElementsAre("-", "--all"));
}

TEST(ArgumentParser, ARequiredOptionMustBeGiven) {
  Command command = trace_like();
  command.options[0].required = true;
  command.options[0].help = "where it goes";
  EXPECT_EQ(ArgumentParser(command).parse({"f"}).error().message(),
            "-o DIR is missing: where it goes");
  EXPECT_TRUE(ArgumentParser(command).parse({"f", "-o", "x"}).ok());
}

TEST(ArgumentParser, AProgramKeepsItsOwnOptions) {
  Command command = trace_like();
  command.positionals.clear();
  command.runs_program = true;
  const auto arguments =
      ArgumentParser(command).parse({"--all", "--", "python", "train.py", "--", "--all"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(arguments->program(), ElementsAre("python", "train.py", "--", "--all"));
  EXPECT_EQ(ArgumentParser(command).parse({"--all"}).error().message(),
            "the program to run is missing; put it after --");
}

TEST(ArgumentParser, ErrorsSuggestWhatWasMeant) {
  EXPECT_EQ(error_of({"f", "--ouput", "x"}),
            "trace takes no option '--ouput'; did you mean '--output'?");
  EXPECT_EQ(error_of({"f", "--output"}), "--output needs a value: --output DIR");
  EXPECT_EQ(error_of({"f", "-o", "--"}), "-o needs a value: -o DIR");
  EXPECT_EQ(error_of({"f", "--all=yes"}), "--all takes no value");
  EXPECT_EQ(error_of({"f", "-o", "x", "-o", "y"}), "-o is given twice");
  EXPECT_EQ(error_of({"f", "--level", "posx"}),
            "--level: 'posx' is not one of posix, stdio; did you mean 'posix'?");
  EXPECT_EQ(error_of({"f", "--size", "64K"}),
            "--size: '64K' could mean KiB (powers of 1024) or kB (powers of 1000); write which");
  EXPECT_EQ(error_of({}), "FILE is missing: what to read");
}

TEST(ArgumentParser, AnUnexpectedArgumentIsNamedWithTheUsage) {
  Command command = trace_like();
  command.positionals.pop_back();
  EXPECT_EQ(ArgumentParser(command).parse({"a", "b"}).error().message(),
            "unexpected argument 'b'; usage: millrace trace [OPTIONS] FILE");
}

TEST(ArgumentParser, AnUnknownOptionIsNamedWithThoseThatAreKnown) {
  EXPECT_EQ(error_of({"f", "-x"}),
            "trace takes no option '-x'; it takes --output, --include, --level, --size, --all, "
            "--verbose");
  const Command bare{.name = "store unmount"};
  EXPECT_EQ(ArgumentParser(bare).parse({"--all"}).error().message(),
            "store unmount takes no option '--all'; it takes no options");
}

TEST(ArgumentParser, AnOptionMayNeedAnother) {
  Command command = trace_like();
  command.options[3].needs = "all";
  EXPECT_EQ(ArgumentParser(command).parse({"f", "--size", "1KiB"}).error().message(),
            "--size needs --all");
  EXPECT_TRUE(ArgumentParser(command).parse({"f", "--size", "1KiB", "--all"}).ok());
  EXPECT_TRUE(ArgumentParser(command).parse({"f"}).ok());
}

TEST(ArgumentParser, AnOptionMayExcludeAnother) {
  Command command = trace_like();
  command.options[3].alternatives = {"all", "verbose"};
  EXPECT_EQ(ArgumentParser(command).parse({"f", "-v", "--size", "1KiB"}).error().message(),
            "--size and --verbose are alternatives; give one");
  EXPECT_TRUE(ArgumentParser(command).parse({"f", "-av"}).ok());
}

TEST(ArgumentParser, ControlCharactersOfAWordDoNotReachTheTerminal) {
  EXPECT_THAT(error_of({"f", "--\x1b[2J"}),
              testing::StartsWith("trace takes no option '--\\x1b[2J'; "));
}

}  // namespace
}  // namespace millrace::cli
