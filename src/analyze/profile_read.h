// profile_read: a saved profile back into a Profile.
//
// Strict about what is there: types, words, lengths that must agree, indices. Tolerant of what is
// not: keys it does not know are skipped, and those that are missing leave their member empty, so
// that builds of one version read each other's files whichever is older. Nothing in a Profile that
// came out can lead a reader of it out of bounds.
#pragma once

#include <string>
#include <string_view>

#include "analyze/profile.h"
#include "base/result.h"

namespace millrace::analyze {

// Files of at most 64 MiB (kDocumentSizeMaxBytes).
Result<Profile> read_profile(const std::string& path);

// `name` stands before the line in complaints.
Result<Profile> parse_profile(std::string_view text, const std::string& name);

}  // namespace millrace::analyze
