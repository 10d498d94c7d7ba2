// Command: one verb of the command line, or one action of a verb, as data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/output.h"

namespace millrace::cli {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// The kind of a value, for shell completion.
enum class ValueKind { kText, kFile, kDirectory };

struct Option {
  std::string_view name;        // "size" is --size
  char letter = '\0';           // 'o' is -o; '\0': none
  std::string_view value = "";  // name of its value in --help; empty: takes none
  std::string_view help;        // one line, lower case, no full stop
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> choices = {};  // allowed values; empty: any
  // Checks the value before the verb runs: an invalid one is wrong usage.
  Status (*check)(std::string_view) = nullptr;
  bool repeatable = false;
  bool required = false;
  std::string_view needs = "";  // the option without which this one means nothing
  std::vector<std::string_view> alternatives = {};  // options that cannot be given with this one
};

struct Positional {
  std::string_view name;  // "DIR"
  std::string_view help;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> choices = {};
  bool required = true;
  bool repeatable = false;  // at most one may be; unless it is the last, its verb separates them
};

struct Example {
  std::string_view command;
  std::string_view meaning;
};

// What the user gave, checked against the command's description.
class Arguments {
 public:
  bool has(std::string_view option) const;

  // The value given last, if any.
  std::optional<std::string> value(std::string_view option) const;

  // All values of a repeatable option, in order.
  std::vector<std::string> values(std::string_view option) const;

  const std::vector<std::string>& positionals() const { return positionals_; }

  // The words after `--`, for verbs that run a program.
  const std::vector<std::string>& program() const { return program_; }

 private:
  friend class ArgumentParser;

  std::map<std::string, std::vector<std::string>, std::less<>> options_;
  std::vector<std::string> positionals_;
  std::vector<std::string> program_;
};

struct Command {
  std::string_view name;         // "bench"; of an action: "bench datasize"
  std::string_view summary;      // one line for the list of verbs
  std::string_view description;  // paragraphs, separated by an empty line
  // The first argument chooses one of them. Each has its own options and arguments, and takes none
  // of the verb's, which are for the case that the first argument is no action.
  std::vector<Command> actions = {};
  std::vector<Option> options = {};
  std::vector<Positional> positionals = {};
  bool runs_program = false;  // takes `-- COMMAND...`
  std::vector<Example> examples = {};
  bool hidden = false;  // not listed: only for our own build
  // Checks what depends on several arguments, before the verb runs: an error is wrong usage.
  Status (*check)(const Arguments& arguments) = nullptr;
  // Null: the verb needs an action.
  Result<int> (*run)(const Arguments& arguments, Output& output) = nullptr;
};

// "datasize" of "bench datasize".
std::string_view last_word(std::string_view name);

// The command that this word chooses. Null: there is none.
const Command* find_command(std::span<const Command> commands, std::string_view word);

// What a shell completes and a manual lists: the commands that are not hidden, each before its
// actions.
std::vector<const Command*> visible(std::span<const Command> commands);

// The words that choose a command.
std::vector<std::string> names_of(std::span<const Command> commands);

// --json, for every verb that prints a result.
Option json_option();

// Options whose value is a directory DIR, a FILE, a whole number N, or a number of bytes, SIZE.
Option directory_option(std::string_view name, std::string_view help);
Option file_option(std::string_view name, std::string_view help);
Option count_option(std::string_view name, std::string_view help);
Option size_option(std::string_view name, std::string_view help);

// -o, --output: the file or directory that the verb writes.
Option output_option(ValueKind kind, std::string_view help);

Option required(Option option);
std::vector<Option> joined(std::initializer_list<std::vector<Option>> lists);

// Checks for Option::check.
Status check_bytes(std::string_view text);
Status check_count(std::string_view text);
Status check_positive(std::string_view text);

// The value of an option with check_count or check_positive.
uint64_t count_of(const Arguments& arguments, std::string_view option, uint64_t otherwise);

}  // namespace millrace::cli
