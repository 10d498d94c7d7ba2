// Any text may be in the log of a killed service: what it says stays below the root, and written
// again it says the same.
#include <cstdint>
#include <cstdlib>

#include "store/written_log.h"

namespace {

using namespace millrace::store;

void check_path(const std::string& path, bool may_be_root) {
  if (path.empty() != may_be_root && path.empty()) std::abort();
  if (path.starts_with('/') || path == ".." || path.starts_with("../")) std::abort();
  if (path.find("/../") != std::string::npos || path.ends_with("/..")) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto log = parse_written_log({reinterpret_cast<const char*>(data), size});
  if (!log.ok()) return 0;
  std::string again;
  for (const std::string& path : log->directories) {
    check_path(path, true);
    again += format_log_line({.kind = LogKind::kDirectory, .version = {}, .path = path});
  }
  for (const auto& [path, version] : log->durable) {
    check_path(path, false);
    again += format_log_line({.kind = LogKind::kDurable, .version = version, .path = path});
  }
  for (const FileVersion& version : log->others) {
    again += format_log_line({.kind = LogKind::kOther, .version = version, .path = "link"});
  }
  const auto read = parse_written_log(again);
  if (!read.ok() || read->directories != log->directories || read->durable != log->durable ||
      read->others != log->others) {
    std::abort();
  }
  return 0;
}
