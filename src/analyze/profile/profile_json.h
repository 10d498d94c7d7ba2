// profile_json: writes a profile as the JSON of docs/formats/report.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyze/profile/profile.h"
#include "base/text/json_writer.h"

namespace millrace::analyze {

inline constexpr std::string_view kProfileFormat = "millrace-report";
inline constexpr uint64_t kProfileVersion = 1;

// The complete JSON object.
std::string profile_json(const Profile& profile);

// Writes "format", "version" and all members of the profile into the object that is open in `json`.
// For callers that add more members ("findings").
void write_profile(JsonWriter& json, const Profile& profile);

}  // namespace millrace::analyze
