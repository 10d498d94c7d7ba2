#include "cli/cli.h"

#include <fmt/core.h>
#include <signal.h>

#include <cstdio>
#include <exception>

#include "base/exception.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "cli/build_info.h"
#include "cli/help/help.h"
#include "cli/options/argument_parser.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

int wrong_usage(std::string_view message, std::string_view help_command) {
  fmt::print(stderr, "millrace: {}\nTry: {}\n", message, help_command);
  return kExitUsage;
}

int unknown_verb(const std::string& word) {
  const std::string hint = did_you_mean(word, names_of(commands()));
  return wrong_usage(fmt::format("unknown verb '{}'{}", printable(word), hint), "millrace --help");
}

// The verb has actions, and `words` begins with none of them.
int unknown_action(const Command& command, const std::vector<std::string>& words) {
  const std::vector<std::string> known = names_of(command.actions);
  const std::string help = fmt::format("millrace {} --help", command.name);
  std::string hint = words.empty() ? "" : did_you_mean(words.front(), known);
  if (hint.empty()) hint = fmt::format("; its actions are {}", join(known, ", "));
  if (words.empty()) {
    return wrong_usage(fmt::format("{} needs an action{}", command.name, hint), help);
  }
  return wrong_usage(
      fmt::format("{} has no action '{}'{}", command.name, printable(words.front()), hint), help);
}

// Looks only before `--`: the program after it has its own --help.
bool asks_for_help(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

int run_command(const Command& command, const std::vector<std::string>& words, Output& output) {
  const Command* const action =
      words.empty() ? nullptr : find_command(command.actions, words.front());
  if (action != nullptr) return run_command(*action, {words.begin() + 1, words.end()}, output);
  if (asks_for_help(words)) {
    output.print(command_help(command, output.terminal()));
    return kExitSuccess;
  }
  if (command.run == nullptr) return unknown_action(command, words);
  const std::string help = fmt::format("millrace {} --help", command.name);
  const auto arguments = ArgumentParser(command).parse(words);
  if (!arguments.ok()) return wrong_usage(arguments.error().message(), help);
  if (command.check != nullptr) {
    const Status checked = command.check(*arguments);
    if (!checked.ok()) return wrong_usage(checked.error().message(), help);
  }
  const auto exit_code = command.run(*arguments, output);
  if (exit_code.ok()) return *exit_code;
  fmt::print(stderr, "millrace: {}\n", exit_code.error().message());
  return kExitFailure;
}

int run_help(const std::vector<std::string>& words, Output& output) {
  if (words.empty()) {
    output.print(program_help(commands(), output.terminal()));
    return kExitSuccess;
  }
  const Command* command = find_command(commands(), words.front());
  if (command == nullptr) return unknown_verb(words.front());
  std::vector<std::string> rest(words.begin() + 1, words.end());
  rest.emplace_back("--help");
  return run_command(*command, rest, output);
}

int run_version(const std::vector<std::string>& words, Output& output) {
  if (words.empty()) {
    output.print(version_text(build_info(), output.terminal()));
    return kExitSuccess;
  }
  if (words.size() == 1 && words.front() == "--json") {
    output.print(version_json(build_info()));
    return kExitSuccess;
  }
  return wrong_usage(
      fmt::format("--version accepts only --json, not '{}'", printable(words.front())),
      "millrace --help");
}

int dispatch(const std::vector<std::string>& arguments, Output& output) {
  if (arguments.empty()) {
    fmt::print(stderr, "{}", program_help(commands(), inspect_terminal(2)));
    return kExitUsage;
  }
  const std::string& first = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (first == "--help" || first == "-h" || first == "help") return run_help(rest, output);
  if (first == "--version" || first == "-V") return run_version(rest, output);
  if (const Command* command = find_command(commands(), first)) {
    return run_command(*command, rest, output);
  }
  if (first.starts_with('-')) {
    return wrong_usage(fmt::format("option '{}' must come after a verb", printable(first)),
                       "millrace --help");
  }
  return unknown_verb(first);
}

}  // namespace

std::span<const Command> commands() {
  static const std::vector<Command> all = {
      trace_command(),  report_command(),     advise_command(),  compare_command(),
      query_command(),  top_command(),        bench_command(),   model_command(),
      replay_command(), store_command(),      info_command(),    compact_command(),
      export_command(), import_command(),     inspect_command(), convert_command(),
      doctor_command(), completion_command(), manual_command(),
  };
  return all;
}

int run(const std::vector<std::string>& arguments) {
  // A file that gets longer than `ulimit -f` allows is then an error of a write, with a message,
  // instead of the end. A handler and not SIG_IGN: programs that we start get the default again.
  signal(SIGXFSZ, [](int) {});
  Output output;
  int exit_code = kExitFailure;
  try {
    exit_code = dispatch(arguments, output);
  } catch (const std::exception&) {
    fmt::print(stderr, "millrace: {}\n", fail_exception().message());
  }
  const Status written = output.finish();
  if (written.ok()) return exit_code;
  fmt::print(stderr, "millrace: {}\n", written.error().message());
  return kExitFailure;
}

}  // namespace millrace::cli
