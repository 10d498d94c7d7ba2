#include "analyze/roles.h"

#include <algorithm>
#include <cctype>

#include "base/text/spelling.h"
#include "base/text/text.h"

namespace millrace::analyze {
namespace {

struct KnownName {
  std::string_view pattern;
  Role role;
};

// The first match counts. Our own names come first, then DFTracer's annotations for training
// (fetch.iter, epoch.block, ...), DLIO's readers, and common names.
constexpr KnownName kKnownNames[] = {
    {"setup", Role::kSetup},
    {"epoch", Role::kEpoch},
    {"step", Role::kStep},
    {"fetch", Role::kFetch},
    {"read", Role::kRead},
    {"decode", Role::kDecode},
    {"decompress", Role::kDecompress},
    {"parse", Role::kParse},
    {"transform", Role::kTransform},
    {"collate", Role::kCollate},
    {"shuffle", Role::kShuffle},
    {"batch_wait", Role::kWait},
    {"copy", Role::kCopy},
    {"compute", Role::kCompute},
    {"forward", Role::kCompute},
    {"backward", Role::kCompute},
    {"optimizer", Role::kCompute},
    {"communicate", Role::kCommunicate},
    {"evaluate", Role::kEvaluate},
    {"checkpoint", Role::kCheckpoint},
    {"restore", Role::kRestore},
    {"device", Role::kDevice},
    {"device_copy", Role::kDeviceCopy},
    {"train", Role::kCompute},
    {"load", Role::kFetch},
    {"wait", Role::kWait},
    {"data_wait", Role::kWait},
    {"preprocess", Role::kTransform},
    {"augment", Role::kTransform},
    {"allreduce", Role::kCommunicate},
    {"all_reduce", Role::kCommunicate},
    {"validate", Role::kEvaluate},
    {"validation", Role::kEvaluate},
    {"eval", Role::kEvaluate},
    {"save", Role::kCheckpoint},
    {"epoch.*", Role::kEpoch},
    {"*.epoch", Role::kEpoch},
    {"*checkpoint*", Role::kCheckpoint},
    {"*restart*", Role::kRestore},
    {"fetch.iter", Role::kWait},
    {"fetch.block", Role::kNone},
    {"fetch.*", Role::kFetch},
    {"*.compute", Role::kCompute},
    {"compute.*", Role::kCompute},
    {"*.forward", Role::kCompute},
    {"*.backward", Role::kCompute},
    {"*.read_index", Role::kRead},
    {"*.read", Role::kRead},
    {"*.open", Role::kRead},
    {"*.get_sample", Role::kRead},
    {"*.parse_image", Role::kDecode},
    {"*.decode", Role::kDecode},
    {"*.preprocess", Role::kTransform},
    {"*.resize", Role::kTransform},
    {"*.next", Role::kFetch},
    {"train_step", Role::kStep},
    {"training_step", Role::kStep},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Only '*' is special and case is ignored, unlike the glob in hook, which is for paths.
bool fits(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && lower(pattern[p]) == lower(text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

Result<RoleRule> parse_role_rule(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size()) {
    return fail(Errc::kInvalidArgument,
                "expected ROLE=NAME, for example compute=fwd_*, but got '{}'", printable(text));
  }
  const std::string_view name = text.substr(0, equals);
  const auto found = std::find(kRoleNames.begin(), kRoleNames.end(), name);
  if (found == kRoleNames.end()) {
    std::vector<std::string> names(kRoleNames.begin(), kRoleNames.end());
    return fail(Errc::kInvalidArgument, "unknown role '{}'; the roles are {}", printable(name),
                join(names, ", "));
  }
  return RoleRule{.pattern = std::string(text.substr(equals + 1)),
                  .role = static_cast<Role>(found - kRoleNames.begin())};
}

Role role_of_name(std::string_view name, const std::vector<RoleRule>& rules) {
  for (const RoleRule& rule : rules) {
    if (fits(rule.pattern, name)) return rule.role;
  }
  for (const KnownName& known : kKnownNames) {
    if (fits(known.pattern, name)) return known.role;
  }
  return Role::kNone;
}

}  // namespace millrace::analyze
