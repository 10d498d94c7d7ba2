#include "analyze/calls/folded.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/text/text.h"

namespace millrace::analyze {
namespace {

// printable() also escapes newlines.
std::string frame_name(const std::string& name) {
  std::string text = printable(name);
  std::replace(text.begin(), text.end(), ';', ',');
  return text;
}

}  // namespace

std::string folded_stacks(const Profile& profile) {
  std::string out;
  std::vector<std::string> stacks(profile.tree.size());
  for (size_t i = 1; i < profile.tree.size(); ++i) {
    const TreeNode& node = profile.tree[i];
    // Parents come before their children, but a profile from a file may claim otherwise.
    if (node.parent >= i) continue;
    stacks[i] = stacks[node.parent];
    if (!stacks[i].empty()) stacks[i] += ';';
    stacks[i] += frame_name(node.name);
    const uint64_t self_us = node.self_ns / 1000 + (node.self_ns % 1000 >= 500 ? 1 : 0);
    if (self_us > 0) out += fmt::format("{} {}\n", stacks[i], self_us);
  }
  return out;
}

}  // namespace millrace::analyze
