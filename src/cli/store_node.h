// store_node: the actions of `store` that concern the service of this node: run, up, status, warm,
// flush, down.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "store/node_folder.h"

namespace millrace::cli {

std::vector<Option> node_options();

// The node that the user names, or all that are running.
Result<std::vector<store::NodeStatus>> listed_nodes(const Arguments& arguments);

// The node that the user means: --node, MILLRACE_STORE, or the only one there is.
Result<store::NodeStatus> chosen_node(const Arguments& arguments);

Result<int> run_run_action(const Arguments& arguments, Output& output);
Result<int> run_up_action(const Arguments& arguments, Output& output);
Result<int> run_status_action(const Arguments& arguments, Output& output);
Result<int> run_warm_action(const Arguments& arguments, Output& output);
Result<int> run_flush_action(const Arguments& arguments, Output& output);
Result<int> run_down_action(const Arguments& arguments, Output& output);

}  // namespace millrace::cli
