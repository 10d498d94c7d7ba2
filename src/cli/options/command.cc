#include "cli/options/command.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::cli {
namespace {

std::optional<uint64_t> parse_count(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool Arguments::has(std::string_view option) const { return options_.contains(option); }

std::optional<std::string> Arguments::value(std::string_view option) const {
  const auto found = options_.find(option);
  if (found == options_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::values(std::string_view option) const {
  const auto found = options_.find(option);
  return found == options_.end() ? std::vector<std::string>() : found->second;
}

std::string_view last_word(std::string_view name) { return name.substr(name.rfind(' ') + 1); }

const Command* find_command(std::span<const Command> commands, std::string_view word) {
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& command) {
    return last_word(command.name) == word;
  });
  return found == commands.end() ? nullptr : &*found;
}

std::vector<const Command*> visible(std::span<const Command> commands) {
  std::vector<const Command*> all;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    all.push_back(&command);
    for (const Command& action : command.actions) all.push_back(&action);
  }
  return all;
}

std::vector<std::string> names_of(std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.hidden) names.emplace_back(last_word(command.name));
  }
  return names;
}

Option json_option() { return {.name = "json", .help = "print the result as JSON"}; }

Option directory_option(std::string_view name, std::string_view help) {
  return {.name = name, .value = "DIR", .help = help, .kind = ValueKind::kDirectory};
}

Option file_option(std::string_view name, std::string_view help) {
  return {.name = name, .value = "FILE", .help = help, .kind = ValueKind::kFile};
}

Option count_option(std::string_view name, std::string_view help) {
  return {.name = name, .value = "N", .help = help, .check = check_count};
}

Option size_option(std::string_view name, std::string_view help) {
  return {.name = name, .value = "SIZE", .help = help, .check = check_bytes};
}

Option output_option(ValueKind kind, std::string_view help) {
  Option option =
      kind == ValueKind::kFile ? file_option("output", help) : directory_option("output", help);
  option.letter = 'o';
  return option;
}

Option required(Option option) {
  option.required = true;
  return option;
}

std::vector<Option> joined(std::initializer_list<std::vector<Option>> lists) {
  std::vector<Option> all;
  for (const std::vector<Option>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Status check_bytes(std::string_view text) {
  RETURN_IF_ERROR(parse_bytes(text));
  return {};
}

Status check_count(std::string_view text) {
  if (parse_count(text)) return {};
  return fail(Errc::kInvalidArgument, "'{}' is not a whole number", printable(text));
}

Status check_positive(std::string_view text) {
  if (parse_count(text).value_or(0) > 0) return {};
  return fail(Errc::kInvalidArgument, "'{}' is not a whole number above 0", printable(text));
}

uint64_t count_of(const Arguments& arguments, std::string_view option, uint64_t otherwise) {
  const auto text = arguments.value(option);
  return text ? parse_count(*text).value_or(otherwise) : otherwise;
}

}  // namespace millrace::cli
