// raw: plain bytes. A sample is a file, or a record of fixed length in a file.
#pragma once

#include <memory>

#include "format/format.h"

namespace millrace::format {

std::unique_ptr<Format> make_raw(const FormatOptions& options);

}  // namespace millrace::format
