// profile_read: reads a saved profile back into a Profile.
//
// It is strict about what is present: types, names, lengths that must agree, indices. It tolerates
// what is not: unknown keys are skipped, and missing ones leave their member empty. Builds of the
// same version therefore read each other's files, whichever is older. No index in the resulting
// Profile is out of bounds.
#pragma once

#include <string>
#include <string_view>

#include "analyze/profile/profile.h"
#include "base/result.h"

namespace millrace::analyze {

// Reads files of at most 64 MiB (kDocumentSizeMaxBytes).
Result<Profile> read_profile(const std::string& path);

// Errors begin with `name` and the line.
Result<Profile> parse_profile(std::string_view text, const std::string& name);

}  // namespace millrace::analyze
