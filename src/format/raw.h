// raw: bytes as they are: a file a sample, or a file of records of one length.
#pragma once

#include <memory>

#include "format/format.h"

namespace millrace::format {

std::unique_ptr<Format> make_raw(const FormatOptions& options);

}  // namespace millrace::format
