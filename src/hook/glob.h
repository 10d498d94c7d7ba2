// Glob: selects paths by a pattern.
//
// `*` matches any run of characters, including '/', so that '/data/*' matches everything below
// /data. `?` matches one character; `[a-z]` and `[!a-z]` are sets; a backslash quotes the next
// character.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::hook {

bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace millrace::hook
