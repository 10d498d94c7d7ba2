// folder: lists the files below a directory, in the same order on every machine.
//
// Follows symbolic links, as torchvision does: datasets are often made of them. A link to a
// directory that contains it is an error, not an endless loop.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/listing.h"

namespace millrace::format {

// The files of one directory, sorted bytewise by name. All names are in one string, so that a
// million files do not take a million allocations.
struct DirectoryFiles {
  std::string directory;
  std::string text;                   // zero-terminated names
  std::vector<uint32_t> name_begins;  // into text, sorted by name

  std::string_view name(size_t index) const { return text.c_str() + name_begins[index]; }
};

// The files below `root` whose names end in one of `extensions` (in any case; if there are none,
// all files), grouped by directory and sorted by its path. Omits directories without such files.
Result<std::vector<DirectoryFiles>> list_tree(const io::Listing& listing, const std::string& root,
                                              std::span<const std::string> extensions);

// The sorted names of the directories in `root`, including links to directories.
Result<std::vector<std::string>> list_directories(const io::Listing& listing,
                                                  const std::string& root);

}  // namespace millrace::format
