#include "cli/help/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/text/json.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/help/completion_script.h"
#include "cli/help/manual_page.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A new verb or action needs complete help.
TEST(Commands, EveryVerbAndActionHasCompleteHelp) {
  for (const Command* command : visible(commands())) {
    EXPECT_FALSE(command->summary.empty()) << command->name;
    EXPECT_FALSE(command->description.empty()) << command->name;
    EXPECT_TRUE(command->run != nullptr || !command->actions.empty()) << command->name;
    EXPECT_FALSE(command->examples.empty()) << command->name;
    for (const Option& option : command->options) EXPECT_FALSE(option.help.empty()) << option.name;
    for (const Positional& each : command->positionals) {
      EXPECT_FALSE(each.help.empty()) << each.name;
    }
  }
}

// Two verbs may share an option only if its value is the same kind of thing.
TEST(Commands, AnOptionMeansTheSameInAllVerbs) {
  std::map<std::string_view, Option> known;
  for (const Command* command : visible(commands())) {
    for (const Option& option : command->options) {
      const Option& first = known.try_emplace(option.name, option).first->second;
      EXPECT_EQ(first.letter, option.letter) << command->name << " --" << option.name;
      if (option.name == "output") continue;  // a file or a directory, as the verb writes
      EXPECT_EQ(first.value, option.value) << command->name << " --" << option.name;
    }
  }
}

TEST(Commands, AnActionIsNamedAfterItsVerb) {
  for (const Command& command : commands()) {
    for (const Command& action : command.actions) {
      EXPECT_EQ(action.name, std::string(command.name) + " " + std::string(last_word(action.name)));
      EXPECT_EQ(find_command(command.actions, last_word(action.name)), &action);
      EXPECT_TRUE(action.actions.empty()) << action.name;
    }
  }
}

TEST(Help, FitsEightyColumns) {
  for (const Command* command : visible(commands())) {
    for (const std::string& line : lines_of(command_help(*command, {}))) {
      // Examples are commands to copy, and are not wrapped.
      if (line.starts_with("  millrace ") || line.starts_with("  source ")) continue;
      EXPECT_LE(display_width(line), 80u) << line;
    }
  }
}

TEST(Help, HidesHiddenVerbsEverywhere) {
  const std::string texts[] = {program_help(commands(), {}), bash_completion(commands()),
                               zsh_completion(commands()), fish_completion(commands()),
                               manual_page(commands(), build_info())};
  for (const std::string& text : texts) {
    EXPECT_THAT(text, HasSubstr("doctor"));
    EXPECT_THAT(text, Not(HasSubstr("print the manual page as roff")));
  }
}

// tests/cli/completion_test.py tests the shells with real verbs.
TEST(Completion, OffersLettersInEveryShell) {
  const Command command{.name = "trace",
                        .options = {{.name = "output",
                                     .letter = 'o',
                                     .value = "DIR",
                                     .help = "where to",
                                     .kind = ValueKind::kDirectory}}};
  const std::span<const Command> one(&command, 1);
  EXPECT_THAT(bash_completion(one),
              HasSubstr("'trace:--output'|'trace:-o') COMPREPLY=($(compgen -d"));
  EXPECT_THAT(zsh_completion(one),
              HasSubstr("'(-o --output)'{-o,--output}'[where to]:DIR:_files -/'"));
  EXPECT_THAT(fish_completion(one),
              HasSubstr("-l output -s o -x -a '(__fish_complete_directories)'"));
}

TEST(Help, NamesOptionsWithTheirValues) {
  EXPECT_EQ(option_spelling({.name = "output", .letter = 'o', .value = "DIR"}), "-o, --output DIR");
  EXPECT_EQ(option_spelling({.name = "json"}), "--json");
  EXPECT_EQ(usage_line({.name = "trace",
                        .options = {{.name = "json"}},
                        .positionals = {{.name = "A"},
                                        {.name = "B", .required = false, .repeatable = true}},
                        .runs_program = true}),
            "millrace trace [OPTIONS] A [B...] -- COMMAND [ARGUMENTS...]");
}

TEST(Version, NamesThePartsThatAreOffWithTheReason) {
  const Part parts[] = {{"yaml", "YAML files", true, "yaml-cpp 0.7.0"},
                        {"mpi", "many ranks", false, "switched off"}};
  const BuildInfo info{"1.2.3", "GNU 12", "aarch64", "Release", parts};
  EXPECT_EQ(version_text(info, {}),
            "millrace 1.2.3 (aarch64, GNU 12, Release)\n"
            "  on  yaml: YAML files (yaml-cpp 0.7.0)\n"
            "  off mpi: many ranks (switched off)\n");
  const auto document = parse_json(version_json(info), "version");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(*document->root.find("parts")->items()[1].find("built_in")->as_bool(), false);
}

}  // namespace
}  // namespace millrace::cli
