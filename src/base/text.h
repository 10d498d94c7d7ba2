// Text: what strings need before people see them: columns, safety, joining.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// How many terminal columns UTF-8 text takes: combining marks none, East Asian wide characters two.
// A byte that is not UTF-8 counts as one.
size_t display_width(std::string_view text);

// The longest beginning of `text` that takes at most `columns`, ended by "..." where text was cut.
std::string shorten(std::string_view text, size_t columns);

// `text` safe to print: control characters and bytes that are not UTF-8 become \x1b and the like.
// File names are other people's bytes, and a terminal obeys escape sequences in them.
std::string printable(std::string_view text);

// Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

// The length in bytes of the UTF-8 character at the start of `text`; 0 if it is not well formed or
// `text` is empty.
size_t utf8_length(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view between);

// `text` as lines of at most `columns`, broken at spaces; a longer word stands alone.
std::vector<std::string> wrap(std::string_view text, size_t columns);

}  // namespace millrace
