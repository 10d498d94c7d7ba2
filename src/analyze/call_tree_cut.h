// Cuts a call tree to what a page can show: keeps the largest nodes, folds the rest into "(other)".
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/call_tree.h"
#include "analyze/context.h"
#include "analyze/profile.h"

namespace millrace::analyze {

// Returns at most `nodes_max` nodes (at least 2) including the root. Each parent comes before its
// children; siblings are sorted by time, longest first. The children of a node that are left out
// become one child named "(other)" with the sums of everything below, so no time is lost.
std::vector<TreeNode> cut_call_tree(const CallTree& tree, const Context& context, size_t nodes_max);

}  // namespace millrace::analyze
