// Pack: makes a page's data small, as far as this build can.
//
// By gzip where the part is there (pack_gzip.cc), which browsers undo by themselves; else as they
// are (pack_plain.cc). The page is told which, and takes both.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::report {

struct Packed {
  std::string_view encoding;  // "gzip" or "plain"
  std::string bytes;
};

Result<Packed> pack(std::string_view text);

}  // namespace millrace::report
