#include "base/system/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace millrace {
namespace {

// Like the C library: LC_ALL, then LC_CTYPE, then LANG. Does not call setlocale, because that would
// change how other code in the process prints numbers.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

size_t columns_from_environment() {
  const char* value = std::getenv("COLUMNS");
  if (value == nullptr) return 0;
  const std::string_view text(value);
  size_t columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns;
}

size_t columns_of(int fd) {
  if (const size_t columns = columns_from_environment(); columns > 0) return columns;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

Terminal inspect_terminal(int fd) {
  Terminal terminal;
  terminal.is_terminal = isatty(fd) == 1;
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  terminal.color = terminal.is_terminal && !dumb && !is_set("NO_COLOR");
  terminal.utf8 = locale_is_utf8();
  terminal.columns = columns_of(fd);
  return terminal;
}

std::string styled(std::string_view text, Style style, bool color) {
  if (!color || style == Style::kPlain) return std::string(text);
  constexpr std::string_view kCodes[] = {"0", "1", "2", "32", "33", "31"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(style)], text);
}

}  // namespace millrace
