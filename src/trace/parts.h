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

// All that can be used of several paths. Fails where that is nothing, with what is wrong with each.
Result<OpenedParts> open_parts(const std::vector<std::string>& paths);

// `paths` in their order without those that would be read a second time: the same under another
// name, or a file or a session in a directory that is among them.
std::vector<std::string> without_repeats(const std::vector<std::string>& paths);

}  // namespace millrace::trace
