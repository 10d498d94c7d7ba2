// Html: the report as one self-contained page, with its data inside.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::report {

// The built page (report/page) with three JSON documents in it: the profile
// (docs/formats/report.md), the findings, and single events for zooming
// (docs/formats/page-data.md). They may hold any bytes: none can end its element. The page takes
// about half a byte per byte of JSON with zlib, 4/3 of a byte without.
Result<std::string> report_html(std::string_view profile_json, std::string_view findings_json,
                                std::string_view detail_json);

}  // namespace millrace::report
