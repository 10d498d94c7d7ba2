// Cutting a call tree to what a page can show: the largest nodes, the rest folded into "(other)".
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/call_tree.h"
#include "analyze/context.h"
#include "analyze/profile.h"

namespace millrace::analyze {

// At most `nodes_max` nodes (at least 2), the root among them, each parent before its children and
// siblings by time, the longest first. What is left out of a parent's children becomes one child
// named "(other)", with the sums of all that was below: no time is lost.
std::vector<TreeNode> cut_call_tree(const CallTree& tree, const Context& context, size_t nodes_max);

}  // namespace millrace::analyze
