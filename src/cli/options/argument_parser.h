// ArgumentParser: turns words of the command line into Arguments, as a Command describes them.
//
// Our own parser rather than CLI11: see docs/design/command-line.md. Accepts --name VALUE,
// --name=VALUE, -o VALUE and -oVALUE, options and arguments in any order. After `--` comes a
// program with its arguments (verbs that run one) or plain arguments (all others).
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"

namespace millrace::cli {

class ArgumentParser {
 public:
  explicit ArgumentParser(const Command& command) : command_(command) {}

  // `words` are those after the verb. Errors are wrong usage, if possible with a suggestion.
  Result<Arguments> parse(const std::vector<std::string>& words);

 private:
  Status take_long(std::string_view word);
  Status take_letters(std::string_view word);
  Error unknown_option(const std::string& given) const;
  Status take_option(const Option& option, std::optional<std::string_view> attached,
                     std::string_view shown);
  Status take_positional(const std::string& word);
  Status check_others(const Option& option) const;
  Status check_complete() const;

  const Command& command_;
  const std::vector<std::string>* words_ = nullptr;
  size_t next_ = 0;
  Arguments arguments_;
};

}  // namespace millrace::cli
