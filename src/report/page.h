// Page: the built page of the report, as src/report/page/dist has it.
#pragma once

#include <string_view>

namespace millrace::report {

// Generated from the file at build time (cmake/embed.cmake).
std::string_view built_page();

// Where the data go.
inline constexpr std::string_view kDataPlace = "<!--millrace:data-->";

}  // namespace millrace::report
