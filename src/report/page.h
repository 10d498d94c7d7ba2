// Page: the built page of the report, from src/report/page/dist.
#pragma once

#include <string_view>

namespace millrace::report {

// Generated from the file at build time (cmake/embed.cmake).
std::string_view built_page();

// The placeholder for the data.
inline constexpr std::string_view kDataPlace = "<!--millrace:data-->";

}  // namespace millrace::report
