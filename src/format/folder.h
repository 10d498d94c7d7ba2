// folder: the files below a directory, in an order that is the same on every machine.
//
// Links are followed, as torchvision does: datasets are often made of them. A link to a directory
// that holds it is an error and not an endless walk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::format {

// The files of one directory, sorted by their bytes; in one text, so that a million of them do not
// take a million allocations.
struct DirectoryFiles {
  std::string directory;
  std::string text;                   // names, each ended by a zero
  std::vector<uint32_t> name_begins;  // into text, sorted by name

  std::string_view name(size_t index) const { return text.c_str() + name_begins[index]; }
};

// The files below `root` whose names end in one of `extensions` (any case; none: all files), by
// directory, directories sorted by their path. Directories without such files are left out.
Result<std::vector<DirectoryFiles>> list_tree(const std::string& root,
                                              std::span<const std::string> extensions);

// The names of the directories in `root`, links to directories among them, sorted.
Result<std::vector<std::string>> list_directories(const std::string& root);

}  // namespace millrace::format
