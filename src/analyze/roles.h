// Roles: what the name of a region means to training.
//
// Known are the names of docs/guide/trace-c.md, those that `python -m millrace.trace` gives, and
// those of DFTracer's and DLIO's own annotations. Users may say more: "compute=fwd_*".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/result.h"

namespace millrace::analyze {

struct RoleRule {
  std::string pattern;  // of the whole name; * stands for anything, case does not matter
  Role role{};
};

// "compute=fwd_*": the role of such names.
Result<RoleRule> parse_role_rule(std::string_view text);

// The first rule that fits, else the known names, else kNone.
Role role_of_name(std::string_view name, const std::vector<RoleRule>& rules);

}  // namespace millrace::analyze
