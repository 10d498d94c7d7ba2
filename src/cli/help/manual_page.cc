#include "cli/help/manual_page.h"

#include <fmt/core.h>

#include "base/text/text.h"
#include "cli/help/help.h"

namespace millrace::cli {
namespace {

// Escapes what roff would interpret: backslashes, hyphens, a leading dot or quote.
std::string escaped(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if (line_start && (c == '.' || c == '\'')) out += "\\&";
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    out += escaped(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 2, text.size()));
    if (!text.empty()) out += ".PP\n";
  }
  return out;
}

std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(term), escaped(text));
}

std::string verb_section(const Command& command) {
  std::string out = fmt::format(".SS {}\n.nf\n.B {}\n.fi\n.PP\n", escaped(command.name),
                                escaped(usage_line(command)));
  out += paragraphs(command.description);
  for (const Positional& positional : command.positionals) {
    out += entry(positional.name, positional.help);
  }
  for (const Option& option : command.options) {
    std::string text(option.help);
    if (!option.choices.empty()) text += ": " + join(option.choices, ", ");
    out += entry(option_spelling(option), text);
  }
  return out;
}

}  // namespace

std::string manual_page(std::span<const Command> commands, const BuildInfo& info) {
  std::string out = fmt::format(
      ".TH MILLRACE 1 \"\" \"millrace {}\" \"User commands\"\n"
      ".SH NAME\n"
      "millrace \\- find and remove the data bottleneck of deep\\-learning training\n"
      ".SH SYNOPSIS\n"
      ".B millrace\n"
      ".I VERB\n"
      "[OPTIONS] [ARGUMENTS]\n"
      ".SH DESCRIPTION\n"
      "Millrace shows where deep\\-learning training waits for its data, and removes the wait.\n"
      "Each verb is one step of that. Results go to standard output, everything else to standard\n"
      "error.\n"
      ".SH VERBS\n",
      info.version);
  for (const Command* command : visible(commands)) out += verb_section(*command);
  out += ".SH OPTIONS\n";
  out += entry("-h, --help", "Print the help for the program, or for a verb, and exit.");
  out += entry("-V, --version", "Print the version and the parts of this build, and exit.");
  out += ".SH EXAMPLES\n";
  for (const Command* command : visible(commands)) {
    for (const Example& example : command->examples) out += entry(example.command, example.meaning);
  }
  out += ".SH ENVIRONMENT\n";
  out += entry("NO_COLOR", "If set and not empty, no colours are used.");
  out += entry("CLICOLOR_FORCE",
               "If set, the ranks of mpirun use colours, too, if they print to a terminal.");
  out += entry("COLUMNS", "The width of the output; overrides the width of the terminal.");
  out += ".SH EXIT STATUS\n";
  out += entry("0", "Success.") + entry("1", "Failure.");
  out += entry("2", "Wrong usage.");
  return out;
}

}  // namespace millrace::cli
