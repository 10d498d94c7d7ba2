// The verb `completion`: prints the completion script for a shell.
#include "cli/cli.h"
#include "cli/help/completion_script.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

Result<int> run_completion(const Arguments& arguments, Output& output) {
  const std::string& shell = arguments.positionals().front();
  if (shell == "bash") output.print(bash_completion(commands()));
  if (shell == "zsh") output.print(zsh_completion(commands()));
  if (shell == "fish") output.print(fish_completion(commands()));
  return kExitSuccess;
}

}  // namespace

Command completion_command() {
  return {
      .name = "completion",
      .summary = "print the completion script for a shell",
      .description =
          "Prints a script with which a shell completes the verbs, options and values of Millrace. "
          "Packages install it; from a build directory, load it yourself.",
      .positionals = {{.name = "SHELL", .help = "the shell", .choices = {"bash", "zsh", "fish"}}},
      .examples = {{"source <(millrace completion bash)", "enable completion in this bash"},
                   {"millrace completion fish > ~/.config/fish/completions/millrace.fish",
                    "enable completion in every new fish"}},
      .run = run_completion,
  };
}

}  // namespace millrace::cli
