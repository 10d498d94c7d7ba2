// warm_in_order: tells the service of a node what programs will read, in order, for programs that
// cannot say it themselves (`store warm --order`).
//
// Lines with paths come from a descriptor, which may be a pipe. How far the programs are is seen
// from the files that they close, by inotify.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/io/file.h"
#include "base/result.h"

namespace millrace::store {

struct WarmOrderOptions {
  // A line that is no file of the store; the first is 1. Called on another thread; may be empty.
  std::function<void(uint64_t line, const std::string& path)> on_unknown;
};

struct WarmOrderReport {
  uint64_t read_count = 0;     // in the order
  uint64_t done_count = 0;     // of these
  uint64_t unknown_count = 0;  // lines that are no files of the store
  bool has_ended = false;      // the service, before the order did
};

// Returns when all files of the order were read, or when the service has ended.
Result<WarmOrderReport> warm_in_order(const std::filesystem::path& node, const File& lines,
                                      const WarmOrderOptions& options);

}  // namespace millrace::store
