// Glob: which paths a user means.
//
// `*` is any run of characters, also across '/', so that '/data/*' is everything below /data; `?`
// is one character; `[a-z]` and `[!a-z]` are sets; a backslash takes the next character as it is.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace::hook {

bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace millrace::hook
