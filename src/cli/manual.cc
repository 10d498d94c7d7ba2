// The hidden verb `manual`: prints the manual page as roff. The build installs it.
#include "cli/build_info.h"
#include "cli/cli.h"
#include "cli/help/manual_page.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

Result<int> run_manual(const Arguments&, Output& output) {
  output.print(manual_page(commands(), build_info()));
  return kExitSuccess;
}

}  // namespace

Command manual_command() {
  return {.name = "manual",
          .summary = "print the manual page as roff",
          .description = "Prints the source of the manual page, as the build installs it.",
          .hidden = true,
          .run = run_manual};
}

}  // namespace millrace::cli
