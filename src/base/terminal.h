// Terminal: what the place our text goes to can show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

struct Terminal {
  bool is_terminal = false;
  bool color = false;  // a terminal, TERM is not "dumb", and NO_COLOR is not set (no-color.org)
  bool utf8 = false;   // the locale's characters are UTF-8
  size_t columns = 80;
};

// Looks at a descriptor and the environment. COLUMNS, where set, wins over the terminal's own word.
Terminal inspect_terminal(int fd);

enum class Style { kPlain, kBold, kDim, kGood, kWarning, kBad };

// `text` with the escape sequences of a style where the terminal has colours, else as it is.
std::string styled(std::string_view text, Style style, bool color);

}  // namespace millrace
