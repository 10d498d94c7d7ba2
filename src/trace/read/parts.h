// Parts: finds the parts of a trace at a path, and opens them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/part.h"

namespace millrace::trace {

struct OpenedParts {
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<std::string> problems;  // files that could not be opened
};

// `path` as for Trace::open. Fails if there is no trace.
Result<OpenedParts> open_parts(const std::string& path);

// Opens everything usable in several paths. If nothing is, fails and says what is wrong with each.
Result<OpenedParts> open_parts(const std::vector<std::string>& paths);

// `paths` in order, without those that would be read twice: the same path under another name, or a
// file or session in a directory that is also listed.
std::vector<std::string> without_repeats(const std::vector<std::string>& paths);

}  // namespace millrace::trace
