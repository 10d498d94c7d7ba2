// store_node: the actions of `store` that concern the service of this node: run, up, status, warm,
// down.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace millrace::cli {

std::vector<Option> node_options();

Result<int> run_run_action(const Arguments& arguments, Output& output);
Result<int> run_up_action(const Arguments& arguments, Output& output);
Result<int> run_status_action(const Arguments& arguments, Output& output);
Result<int> run_warm_action(const Arguments& arguments, Output& output);
Result<int> run_down_action(const Arguments& arguments, Output& output);

}  // namespace millrace::cli
