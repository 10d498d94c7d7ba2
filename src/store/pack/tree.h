// Tree: the files, directories and symbolic links of a pack, in the order of the catalogue.
//
// 64 bytes and the name for each: the listing of ten million files fits into a gigabyte. Made from
// a directory, or from a list of paths.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/catalogue.h"

namespace millrace::store {

// Two names of one file (hard links): the entry has the bytes of an earlier entry.
struct SameFile {
  uint32_t entry;
  uint32_t first;
};

struct Tree {
  std::vector<wire::CatalogueEntry> entries;  // parents first; the children of one are consecutive
  std::string names;                          // what entries refer to
  std::vector<SameFile> same_file;            // in the order of the entries

  std::string_view name(uint32_t index) const;
  std::string_view link_target(uint32_t index) const;  // empty unless it is a link
  std::string path(uint32_t index) const;              // relative to the root
};

// The tree below a directory. Links are not followed; sockets, pipes and devices are only listed.
Result<Tree> walk_directory(const std::string& root, std::vector<std::string>& skipped,
                            const std::function<void(uint64_t entries)>& on_progress = {});

// A file, directory or link from elsewhere. The names and the parent of `entry` are not used; for a
// directory, neither are its children.
struct Member {
  std::string path;    // relative to the root; "" is the root
  std::string target;  // of a link
  wire::CatalogueEntry entry{};
};

// Directories that are missing are added, with mode 0755. If a path occurs twice in a partition,
// the last one counts, as in a tar file; twice in different partitions is an error. So are paths
// that could leave the root.
Result<Tree> tree_of(std::vector<Member> members);

// Whether `path` may be in a pack: its components are neither empty, "." nor "..", have at most 255
// bytes and no zero byte. "" is the root. Otherwise says what is wrong.
Status check_path(std::string_view path);

// The same for one component.
Status check_name(std::string_view name);

}  // namespace millrace::store
