#include "cli/help/completion_script.h"

#include <fmt/core.h>

#include "base/text/text.h"

namespace millrace::cli {
namespace {

// In single quotes, which work in all three shells.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// "'bench datasize'|'store pack'": a pattern for all actions of all verbs, in bash and zsh.
std::string action_patterns(std::span<const Command> commands) {
  std::vector<std::string> patterns;
  for (const Command& command : commands) {
    for (const Command& action : command.actions) patterns.push_back(shell_word(action.name));
  }
  return patterns.empty() ? "''" : join(patterns, "|");
}

// ---- bash -----------------------------------------------------------------------------------

std::string bash_words(const Command& command) {
  std::vector<std::string> words = names_of(command.actions);
  words.emplace_back("--help");
  for (const Option& option : command.options) words.push_back(fmt::format("--{}", option.name));
  for (const Positional& positional : command.positionals) {
    words.insert(words.end(), positional.choices.begin(), positional.choices.end());
  }
  return join(words, " ");
}

std::string_view bash_files(ValueKind kind) {
  switch (kind) {
    case ValueKind::kFile:
      return "-f";
    case ValueKind::kDirectory:
      return "-d";
    case ValueKind::kText:
      break;
  }
  return "";
}

// The cases for options that take a value, as the word before the cursor.
std::string bash_value_cases(const Command& command) {
  std::string out;
  for (const Option& option : command.options) {
    if (option.value.empty()) continue;
    std::string pattern = shell_word(fmt::format("{}:--{}", command.name, option.name));
    if (option.letter != '\0') {
      pattern += "|" + shell_word(fmt::format("{}:-{}", command.name, option.letter));
    }
    const std::string words = option.choices.empty()
                                  ? std::string(bash_files(option.kind))
                                  : fmt::format("-W {}", shell_word(join(option.choices, " ")));
    out += fmt::format("    {}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n", pattern,
                       words.empty() ? "-W ''" : words);
  }
  return out;
}

// ---- zsh ------------------------------------------------------------------------------------

// Escapes characters that end a description of _arguments or begin an action.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(ValueKind kind, const std::vector<std::string>& choices) {
  if (!choices.empty()) return fmt::format("({})", join(choices, " "));
  switch (kind) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kDirectory:
      return "_files -/";
    case ValueKind::kText:
      break;
  }
  return " ";
}

// One option for _arguments. The braces of the two spellings are outside the quotes, for the shell.
std::string zsh_option(const Option& option) {
  std::string text = fmt::format("[{}]", zsh_text(option.help));
  if (!option.value.empty()) {
    text += fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option.kind, option.choices));
  }
  const std::string_view many = option.repeatable ? "*" : "";
  if (option.letter == '\0') return shell_word(fmt::format("{}--{}{}", many, option.name, text));
  const std::string once = fmt::format("(-{} --{})", option.letter, option.name);
  return fmt::format("{}{{-{},--{}}}{}", shell_word(option.repeatable ? "*" : once), option.letter,
                     option.name, shell_word(text));
}

std::string zsh_arguments(const Command& command) {
  std::vector<std::string> specs = {"'(-h --help)'{-h,--help}'[print help]'"};
  for (const Option& option : command.options) specs.push_back(zsh_option(option));
  if (command.run == nullptr && !command.actions.empty()) {
    specs.push_back(shell_word(fmt::format("1:action:({})", join(names_of(command.actions), " "))));
  }
  for (const Positional& positional : command.positionals) {
    // Not " ", which would keep zsh from completing options after it.
    std::string action = zsh_action(positional.kind, positional.choices);
    if (action == " ") action = "_nothing";
    if (&positional == command.positionals.data() && !command.actions.empty()) {
      action = fmt::format("{{_alternative 'actions:action:({})' 'others:{}:{}'}}",
                           join(names_of(command.actions), " "), positional.name, action);
    }
    specs.push_back(shell_word(fmt::format("{}:{}:{}", positional.repeatable ? "*" : "",
                                           zsh_text(positional.help), action)));
  }
  return join(specs, " \\\n          ");
}

// ---- fish -----------------------------------------------------------------------------------

std::string fish_files(ValueKind kind) {
  switch (kind) {
    case ValueKind::kFile:
      return " -F";
    case ValueKind::kDirectory:
      return " -a '(__fish_complete_directories)'";
    case ValueKind::kText:
      break;
  }
  return "";
}

std::string fish_command(const Command& command) {
  // For an action, both words were seen; for a verb, none of its actions was.
  std::string seen(command.name);
  if (const size_t space = seen.find(' '); space != std::string::npos) {
    seen.replace(space, 1, "; and __fish_seen_subcommand_from ");
  }
  const std::vector<std::string> actions = names_of(command.actions);
  if (!actions.empty()) seen += "; and not __fish_seen_subcommand_from " + join(actions, " ");
  const std::string when =
      fmt::format("complete -c millrace -n '__fish_seen_subcommand_from {}'", seen);
  std::string out;
  for (const Command& action : command.actions) {
    out +=
        fmt::format("{} -a {} -d {}\n", when, last_word(action.name), shell_word(action.summary));
  }
  for (const Option& option : command.options) {
    out += fmt::format("{} -l {}", when, option.name);
    if (option.letter != '\0') out += fmt::format(" -s {}", option.letter);
    if (!option.value.empty()) {
      // -x takes a value that is not a file; fish rejects it together with -F.
      const bool files = option.choices.empty() && option.kind == ValueKind::kFile;
      out += files ? " -r" : " -x";
      out += option.choices.empty() ? fish_files(option.kind)
                                    : fmt::format(" -a {}", shell_word(join(option.choices, " ")));
    }
    out += fmt::format(" -d {}\n", shell_word(option.help));
  }
  for (const Positional& positional : command.positionals) {
    const std::string words =
        positional.choices.empty()
            ? fish_files(positional.kind)
            : fmt::format(" -a {}", shell_word(join(positional.choices, " ")));
    if (!words.empty()) out += fmt::format("{}{}\n", when, words);
  }
  return out;
}

}  // namespace

std::string bash_completion(std::span<const Command> commands) {
  std::string value_cases;
  std::string word_cases;
  for (const Command* command : visible(commands)) {
    value_cases += bash_value_cases(*command);
    ValueKind kind = ValueKind::kText;
    for (const Positional& positional : command->positionals) {
      if (positional.kind != ValueKind::kText) kind = positional.kind;
    }
    word_cases +=
        fmt::format("    {}) COMPREPLY=($(compgen -W {} {} -- \"$word\")) ;;\n",
                    shell_word(command->name), shell_word(bash_words(*command)), bash_files(kind));
  }
  return fmt::format(
      "# bash completion for millrace; generated by `millrace completion bash`.\n"
      "_millrace() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local verb=${{COMP_WORDS[1]}}\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W {} -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  ((COMP_CWORD > 2)) && case \"$verb ${{COMP_WORDS[2]}}\" in\n"
      "    {}) verb+=\" ${{COMP_WORDS[2]}}\" ;;\n"
      "  esac\n"
      "  case \"$verb:$before\" in\n"
      "{}"
      "    help:help) COMPREPLY=($(compgen -W {} -- \"$word\")); return ;;\n"
      "  esac\n"
      "  case \"$verb\" in\n"
      "{}"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _millrace millrace\n",
      shell_word(join(names_of(commands), " ") + " help --help --version"),
      action_patterns(commands), value_cases, shell_word(join(names_of(commands), " ")),
      word_cases);
}

std::string zsh_completion(std::span<const Command> commands) {
  std::string verbs;
  std::string cases;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    verbs += fmt::format("    {}\n",
                         shell_word(fmt::format("{}:{}", command.name, zsh_text(command.summary))));
  }
  for (const Command* command : visible(commands)) {
    cases += fmt::format("        {})\n          _arguments {} ;;\n", shell_word(command->name),
                         zsh_arguments(*command));
  }
  return fmt::format(
      "#compdef millrace\n"
      "# zsh completion for millrace; generated by `millrace completion zsh`.\n"
      "_millrace() {{\n"
      "  local -a verbs\n"
      "  verbs=(\n"
      "{}"
      "    'help:print the help for a verb'\n"
      "  )\n"
      "  _arguments -C '(-h --help)'{{-h,--help}}'[print help]' \\\n"
      "    '(-V --version)'{{-V,--version}}'[print the version]' \\\n"
      "    '1:verb:->verb' '*::argument:->argument'\n"
      "  case $state in\n"
      "    verb) _describe verb verbs ;;\n"
      "    argument)\n"
      "      local verb=$words[1]\n"
      "      ((CURRENT > 2)) && case \"$verb $words[2]\" in\n"
      "        {}) verb+=\" $words[2]\"; shift words; ((CURRENT--)) ;;\n"
      "      esac\n"
      "      case $verb in\n"
      "        help) _describe verb verbs ;;\n"
      "{}"
      "      esac ;;\n"
      "  esac\n"
      "}}\n"
      "_millrace \"$@\"\n",
      verbs, action_patterns(commands), cases);
}

std::string fish_completion(std::span<const Command> commands) {
  std::string out =
      "# fish completion for millrace; generated by `millrace completion fish`.\n"
      "complete -c millrace -f\n"
      "complete -c millrace -n __fish_use_subcommand -s V -l version -d 'print the version'\n"
      "complete -c millrace -s h -l help -d 'print help'\n"
      "complete -c millrace -n __fish_use_subcommand -a help -d 'print the help for a verb'\n";
  for (const Command& command : commands) {
    if (command.hidden) continue;
    out += fmt::format("complete -c millrace -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       shell_word(command.summary));
  }
  for (const Command* command : visible(commands)) out += fish_command(*command);
  return out;
}

}  // namespace millrace::cli
