// Terminal: the capabilities of a terminal or other output.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

struct Terminal {
  bool is_terminal = false;
  bool color = false;  // a terminal, TERM is not "dumb", and NO_COLOR is not set (no-color.org)
  bool utf8 = false;   // the locale is UTF-8
  size_t columns = 80;
};

// Inspects a descriptor and the environment. COLUMNS, if set, overrides the size of the terminal.
Terminal inspect_terminal(int fd);

enum class Style { kPlain, kBold, kDim, kGood, kWarning, kBad };

// `text` with the escape sequences of a style if `color` is set; otherwise unchanged.
std::string styled(std::string_view text, Style style, bool color);

}  // namespace millrace
