#include "trace/parts.h"

#include <algorithm>
#include <filesystem>

#include "trace/packed_part.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

Result<OpenedParts> open_parts(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail(Errc::kNotFound,
                "{}: no such file or directory; a trace is what `millrace trace -o` "
                "wrote",
                path);
  }
  OpenedParts opened;
  if (!fs::is_directory(status)) {
    ASSIGN_OR_RETURN(auto part, PackedPart::open(path));
    opened.parts.push_back(std::move(part));
    return opened;
  }
  for (const fs::path& entry : sorted_entries(path)) {
    if (entry.extension() != ".mrt") continue;
    auto part = PackedPart::open(entry.string());
    if (part.ok()) {
      opened.parts.push_back(*std::move(part));
    } else {
      opened.problems.push_back(part.error().message());
    }
  }
  if (opened.parts.empty() && opened.problems.empty()) {
    return fail(Errc::kNotFound, "{}: holds no trace: neither *.mrt files nor recordings", path);
  }
  return opened;
}

}  // namespace millrace::trace
