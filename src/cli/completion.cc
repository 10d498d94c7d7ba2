// The verb `completion`: prints the completion script of a shell.
#include "cli/cli.h"
#include "cli/completion_script.h"
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
      .summary = "print the completion script of a shell",
      .description =
          "Prints a script that makes a shell complete Millrace's verbs, options and values. The "
          "packages install it; from a build directory, load it yourself.",
      .positionals = {{.name = "SHELL",
                       .help = "the shell to complete in",
                       .choices = {"bash", "zsh", "fish"}}},
      .examples = {{"source <(millrace completion bash)", "complete in this bash from now on"},
                   {"millrace completion fish > ~/.config/fish/completions/millrace.fish",
                    "complete in every fish to come"}},
      .run = run_completion,
  };
}

}  // namespace millrace::cli
