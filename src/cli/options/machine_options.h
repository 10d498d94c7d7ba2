// Options that describe the machine of a job, for advice.
#pragma once

#include <vector>

#include "advise/machine.h"
#include "cli/options/command.h"

namespace millrace::cli {

// --cores, --memory, --local-disk, --data-storage, --checkpoint-storage.
std::vector<Option> machine_options();

advise::MachineWords machine_words(const Arguments& arguments);

}  // namespace millrace::cli
