#include "cli/help/help.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text/json_writer.h"
#include "base/text/table.h"
#include "base/text/text.h"

namespace millrace::cli {
namespace {

std::string heading(std::string_view title, const Terminal& terminal) {
  return "\n" + styled(title, Style::kBold, terminal.color) + "\n";
}

size_t text_columns(const Terminal& terminal) {
  return std::clamp<size_t>(terminal.columns, 40, 100);
}

// "  name   text that continues\n         below itself\n" for each row.
std::string definitions(const std::vector<std::pair<std::string, std::string>>& rows,
                        const Terminal& terminal) {
  size_t widest = 0;
  for (const auto& [term, text] : rows) widest = std::max(widest, display_width(term));
  const size_t indent = 2 + std::min<size_t>(widest, 26) + 2;
  std::string out;
  for (const auto& [term, text] : rows) {
    std::string line = "  " + term;
    if (display_width(line) + 2 > indent) {
      out += line + "\n";
      line.clear();
    }
    for (const std::string& part : wrap(text, text_columns(terminal) - indent)) {
      line.append(indent - display_width(line), ' ');
      out += line + part + "\n";
      line.clear();
    }
  }
  return out;
}

std::string paragraphs(std::string_view text, const Terminal& terminal) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    for (const std::string& line : wrap(text.substr(0, end), text_columns(terminal))) {
      out += line + "\n";
    }
    text.remove_prefix(std::min(end + 2, text.size()));
    if (!text.empty()) out += "\n";
  }
  return out;
}

std::string option_text(const Option& option) {
  std::string text(option.help);
  if (!option.choices.empty()) text += ": " + join(option.choices, ", ");
  if (option.repeatable) text += " (may be repeated)";
  return text;
}

std::string examples_text(const Command& command, const Terminal& terminal) {
  if (command.examples.empty()) return {};
  std::string out = heading("Examples", terminal);
  for (const Example& example : command.examples) {
    out += fmt::format("  {}\n      {}\n", example.command, example.meaning);
  }
  return out;
}

}  // namespace

std::string option_spelling(const Option& option) {
  std::string text = option.letter != '\0' ? fmt::format("-{}, ", option.letter) : std::string();
  text += fmt::format("--{}", option.name);
  if (!option.value.empty()) text += fmt::format(" {}", option.value);
  return text;
}

std::string usage_line(const Command& command) {
  std::string line = fmt::format("millrace {}", command.name);
  if (command.run == nullptr && !command.actions.empty()) return line + " ACTION ...";
  if (!command.options.empty()) line += " [OPTIONS]";
  for (const Positional& positional : command.positionals) {
    const std::string name =
        fmt::format("{}{}", positional.name, positional.repeatable ? "..." : "");
    line += positional.required ? " " + name : " [" + name + "]";
  }
  if (command.runs_program) line += " -- COMMAND [ARGUMENTS...]";
  return line;
}

std::string command_help(const Command& command, const Terminal& terminal) {
  std::string out = fmt::format("Usage: {}\n\n", usage_line(command));
  out += paragraphs(command.description, terminal);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Command& action : command.actions) {
    rows.emplace_back(last_word(action.name), action.summary);
  }
  if (!rows.empty()) out += heading("Actions", terminal) + definitions(rows, terminal);
  rows.clear();
  for (const Positional& positional : command.positionals) {
    std::string text(positional.help);
    if (!positional.choices.empty()) text += ": " + join(positional.choices, ", ");
    rows.emplace_back(positional.name, std::move(text));
  }
  if (!rows.empty()) out += heading("Arguments", terminal) + definitions(rows, terminal);
  rows.clear();
  for (const Option& option : command.options) {
    rows.emplace_back(option_spelling(option), option_text(option));
  }
  rows.emplace_back("-h, --help", command.actions.empty()
                                      ? "print this help and exit"
                                      : "print this help, or that of an action, and exit");
  out += heading("Options", terminal) + definitions(rows, terminal);
  return out + examples_text(command, terminal);
}

std::string program_help(std::span<const Command> commands, const Terminal& terminal) {
  std::string out =
      "Usage: millrace VERB [OPTIONS] [ARGUMENTS]\n\n"
      "Millrace shows where deep-learning training waits for its data, and removes the wait.\n";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Command& command : commands) {
    if (!command.hidden) rows.emplace_back(command.name, command.summary);
  }
  out += heading("Verbs", terminal) + definitions(rows, terminal);
  out += heading("Options", terminal) +
         definitions({{"-h, --help", "print this help, or the help for a verb, and exit"},
                      {"-V, --version", "print the version and the parts of this build, and exit"}},
                     terminal);
  out += heading("Examples", terminal);
  for (const Command& command : commands) {
    if (command.hidden || command.examples.empty()) continue;
    const Example& example = command.examples.front();
    out += fmt::format("  {}\n      {}\n", example.command, example.meaning);
  }
  out +=
      "\nExit codes: 0 success, 1 failure, 2 wrong usage.\n"
      "NO_COLOR=1 turns colours off. Manual: man millrace\n";
  return out;
}

std::string version_text(const BuildInfo& info, const Terminal& terminal) {
  std::string out = fmt::format("millrace {} ({}, {}, {})\n", info.version, info.architecture,
                                info.compiler, info.build_type);
  for (const Part& part : info.parts) {
    const std::string state = part.built_in ? styled("on ", Style::kGood, terminal.color)
                                            : styled("off", Style::kWarning, terminal.color);
    out += fmt::format("  {} {}: {} ({})\n", state, part.name, part.provides, part.reason);
  }
  return out;
}

std::string version_json(const BuildInfo& info) {
  JsonWriter json;
  json.begin_object();
  json.field("version", info.version);
  json.field("architecture", info.architecture);
  json.field("compiler", info.compiler);
  json.field("build_type", info.build_type);
  json.key("parts");
  json.begin_list();
  for (const Part& part : info.parts) {
    json.begin_object();
    json.field("name", part.name);
    json.field("provides", part.provides);
    json.field("built_in", part.built_in);
    json.field("reason", part.reason);
    json.end_object();
  }
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::cli
