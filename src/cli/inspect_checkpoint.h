// inspect_checkpoint: the part of the verb `inspect` for checkpoints of TensorFlow.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/output.h"

namespace millrace::cli {

// Shows the tensors of the checkpoint with this .index file. Fails if a checksum is wrong.
Result<int> inspect_checkpoint(const std::string& index_path, bool as_json, Output& output);

}  // namespace millrace::cli
