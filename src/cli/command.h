// Command: one verb of the command line, as data.
#pragma once

#include <functional>
#include <map>
#include <optional>
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
  std::string_view name;
  std::string_view summary;      // one line for the list of verbs
  std::string_view description;  // paragraphs, separated by an empty line
  std::vector<Option> options = {};
  std::vector<Positional> positionals = {};
  bool runs_program = false;         // takes `-- COMMAND...`
  bool program_is_optional = false;  // only some of its actions run one
  std::vector<Example> examples = {};
  bool hidden = false;  // not listed: only for our own build
  // Checks what depends on several arguments, before the verb runs: an error is wrong usage.
  Status (*check)(const Arguments& arguments) = nullptr;
  Result<int> (*run)(const Arguments& arguments, Output& output) = nullptr;
};

// --json, for every verb that prints a result.
Option json_option();

// Checks for Option::check.
Status check_bytes(std::string_view text);

}  // namespace millrace::cli
