// store_node: the actions of `store` that concern the service of this node: run, up, status, warm,
// flush, down.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options/command.h"
#include "store/service/node_folder.h"

namespace millrace::cli {

std::vector<Command> node_actions();

// --node and --local: which running store an action is about.
std::vector<Option> chosen_node_options();

// The node that the user names, or all that are running.
Result<std::vector<store::NodeStatus>> listed_nodes(const Arguments& arguments);

// The node that the user means: --node, MILLRACE_STORE, or the only one there is.
Result<store::NodeStatus> chosen_node(const Arguments& arguments);

Result<int> run_status(const Arguments& arguments, Output& output);

}  // namespace millrace::cli
