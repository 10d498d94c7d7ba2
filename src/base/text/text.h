// Text: prepares strings for display: width, escaping, joining.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// The number of terminal columns that UTF-8 text takes: combining marks take none, East Asian wide
// characters two. A byte that is not UTF-8 takes one.
size_t display_width(std::string_view text);

// Shortens `text` to at most `columns`. Ends with "..." if text was cut.
std::string shorten(std::string_view text, size_t columns);

// Makes `text` safe to print: control characters and bytes that are not UTF-8 become escapes such
// as \x1b. File names can contain any bytes, and a terminal obeys escape sequences in them.
std::string printable(std::string_view text);

// Whether `text` is valid UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

// The length in bytes of the UTF-8 character at the start of `text`; 0 if it is invalid or `text`
// is empty.
size_t utf8_length(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view between);

// Breaks `text` at spaces, but not before "%", into lines of at most `columns`. A longer word gets
// its own line.
std::vector<std::string> wrap(std::string_view text, size_t columns);

}  // namespace millrace
