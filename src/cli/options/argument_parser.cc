#include "cli/options/argument_parser.h"

#include <algorithm>
#include <utility>

#include "base/text/spelling.h"
#include "base/text/text.h"
#include "cli/help/help.h"

namespace millrace::cli {
namespace {

Status check_choice(const std::vector<std::string>& choices, const std::string& value) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return {};
  }
  return fail(Errc::kInvalidArgument, "'{}' is not one of {}{}", printable(value),
              join(choices, ", "), did_you_mean(value, choices));
}

}  // namespace

Result<Arguments> ArgumentParser::parse(const std::vector<std::string>& words) {
  words_ = &words;
  arguments_ = {};
  for (next_ = 0; next_ < words.size();) {
    const std::string& word = words[next_++];
    if (word == "--") {
      const auto rest = words.begin() + static_cast<std::ptrdiff_t>(next_);
      if (command_.runs_program) {
        arguments_.program_.assign(rest, words.end());
      } else {
        for (auto plain = rest; plain != words.end(); ++plain) {
          RETURN_IF_ERROR(take_positional(*plain));
        }
      }
      break;
    }
    if (word.starts_with("--")) {
      RETURN_IF_ERROR(take_long(std::string_view(word).substr(2)));
    } else if (word.starts_with('-') && word.size() > 1) {
      RETURN_IF_ERROR(take_letters(std::string_view(word).substr(1)));
    } else {
      RETURN_IF_ERROR(take_positional(word));
    }
  }
  RETURN_IF_ERROR(check_complete());
  return std::move(arguments_);
}

Status ArgumentParser::take_long(std::string_view word) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  for (const Option& option : command_.options) {
    if (option.name != name) continue;
    const auto attached =
        equals == std::string_view::npos ? std::nullopt : std::optional(word.substr(equals + 1));
    return take_option(option, attached, fmt::format("--{}", name));
  }
  return unknown_option(fmt::format("--{}", name));
}

Status ArgumentParser::take_letters(std::string_view word) {
  while (!word.empty()) {
    const char letter = word.front();
    word.remove_prefix(1);
    const auto option =
        std::find_if(command_.options.begin(), command_.options.end(),
                     [&](const Option& each) { return letter != '\0' && each.letter == letter; });
    if (option == command_.options.end()) {
      return unknown_option(fmt::format("-{}", letter));
    }
    const std::string shown = fmt::format("-{}", letter);
    if (!option->value.empty() && !word.empty()) return take_option(*option, word, shown);
    RETURN_IF_ERROR(take_option(*option, std::nullopt, shown));
  }
  return {};
}

Error ArgumentParser::unknown_option(const std::string& given) const {
  std::vector<std::string> known;
  for (const Option& option : command_.options) known.push_back(fmt::format("--{}", option.name));
  std::string hint = did_you_mean(given, known);
  if (hint.empty()) hint = "; it takes " + (known.empty() ? "no options" : join(known, ", "));
  return fail(Errc::kInvalidArgument, "{} takes no option '{}'{}", command_.name, printable(given),
              hint);
}

Status ArgumentParser::take_option(const Option& option, std::optional<std::string_view> attached,
                                   std::string_view shown) {
  std::string value;
  if (option.value.empty()) {
    if (attached) return fail(Errc::kInvalidArgument, "{} takes no value", shown);
  } else if (attached) {
    value = *attached;
  } else if (next_ < words_->size() && (*words_)[next_] != "--") {
    value = (*words_)[next_++];
  } else {
    return fail(Errc::kInvalidArgument, "{} needs a value: {} {}", shown, shown, option.value);
  }
  RETURN_IF_ERROR(check_choice(option.choices, value).within(shown));
  if (option.check != nullptr) RETURN_IF_ERROR(option.check(value).within(shown));
  auto& values = arguments_.options_[std::string(option.name)];
  if (!values.empty() && !option.value.empty() && !option.repeatable) {
    return fail(Errc::kInvalidArgument, "{} is given twice", shown);
  }
  values.push_back(std::move(value));
  return {};
}

Status ArgumentParser::take_positional(const std::string& word) {
  const size_t index = arguments_.positionals_.size();
  const auto& expected = command_.positionals;
  const bool beyond = index >= expected.size();
  const bool repeats = std::any_of(expected.begin(), expected.end(),
                                   [](const Positional& each) { return each.repeatable; });
  if (beyond && !repeats) {
    return fail(Errc::kInvalidArgument, "unexpected argument '{}'; usage: {}", printable(word),
                usage_line(command_));
  }
  const Positional& positional = beyond ? expected.back() : expected[index];
  RETURN_IF_ERROR(check_choice(positional.choices, word));
  arguments_.positionals_.push_back(word);
  return {};
}

Status ArgumentParser::check_others(const Option& option) const {
  if (!option.needs.empty() && !arguments_.has(option.needs)) {
    return fail(Errc::kInvalidArgument, "--{} needs --{}", option.name, option.needs);
  }
  for (const std::string_view other : option.alternatives) {
    if (!arguments_.has(other)) continue;
    return fail(Errc::kInvalidArgument, "--{} and --{} are alternatives; give one", option.name,
                other);
  }
  return {};
}

Status ArgumentParser::check_complete() const {
  const size_t given = arguments_.positionals_.size();
  if (given < command_.positionals.size() && command_.positionals[given].required) {
    const Positional& missing = command_.positionals[given];
    return fail(Errc::kInvalidArgument, "{} is missing: {}", missing.name, missing.help);
  }
  for (const Option& option : command_.options) {
    if (arguments_.has(option.name)) {
      RETURN_IF_ERROR(check_others(option));
      continue;
    }
    if (!option.required) continue;
    const std::string shown = option.letter != '\0' ? fmt::format("-{}", option.letter)
                                                    : fmt::format("--{}", option.name);
    return fail(Errc::kInvalidArgument, "{} {} is missing: {}", shown, option.value, option.help);
  }
  if (command_.runs_program && arguments_.program_.empty()) {
    return fail(Errc::kInvalidArgument, "the program to run is missing; put it after --");
  }
  return {};
}

}  // namespace millrace::cli
