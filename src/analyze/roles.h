// Roles: what the name of a region means to training.
//
// The known names are those of docs/guide/trace-c.md, those that `python -m millrace.trace` sets,
// and those of the annotations of DFTracer and DLIO. Users can add more: "compute=fwd_*".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/result.h"

namespace millrace::analyze {

struct RoleRule {
  std::string pattern;  // matches the whole name; * matches anything, case is ignored
  Role role{};
};

// Parses "compute=fwd_*": names that match fwd_* get the role compute.
Result<RoleRule> parse_role_rule(std::string_view text);

// The role of the first rule that matches, else of the known names, else kNone.
Role role_of_name(std::string_view name, const std::vector<RoleRule>& rules);

}  // namespace millrace::analyze
