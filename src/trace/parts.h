// Parts: finds what a path holds of a trace, and opens it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/part.h"

namespace millrace::trace {

struct OpenedParts {
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<std::string> problems;  // of files that could not be opened at all
};

// `path` as Trace::open takes it. Fails where there is nothing of a trace.
Result<OpenedParts> open_parts(const std::string& path);

}  // namespace millrace::trace
