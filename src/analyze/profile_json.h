// profile_json: a profile as the JSON of docs/formats/report.md.
#pragma once

#include <string>

#include "analyze/profile.h"
#include "base/json_writer.h"

namespace millrace::analyze {

// One object, whole.
std::string profile_json(const Profile& profile);

// "format", "version" and all members of the profile into the object that `json` has open, for
// those who put more beside them ("findings").
void write_profile(JsonWriter& json, const Profile& profile);

}  // namespace millrace::analyze
