// store_tars: the members of tar files, for a pack that leaves them where they are.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/pack/rebuild.h"

namespace millrace::cli {

// Reads the headers of all members. Each tar file is a partition, in the order given.
Result<store::TarSource> read_tars(const std::vector<std::string>& paths);

}  // namespace millrace::cli
