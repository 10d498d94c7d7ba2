// page_cache: what of a dataset the page cache holds, and how to empty or fill it.
//
// A benchmark whose reads come from memory measures memory. So a run says what share of its reads
// the page cache could serve.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace millrace::bench {

// Files by index, so that millions of names need not be in memory.
struct FileList {
  uint64_t count = 0;
  std::function<std::string(uint64_t)> path;
};

// How many pages of a file there are, and how many of them the page cache holds.
struct Residence {
  uint64_t resident_pages = 0;
  uint64_t pages = 0;
};

// Looks at the first `size_bytes` of an open file. No pages if that cannot be found out.
Residence residence_of(int fd, uint64_t size_bytes);

// The share of the files' bytes that the page cache holds, 0 to 1, from at most `files_max` of them
// at equal distances. Files that are missing count as nothing.
double cached_share(const FileList& files, uint64_t files_max = 256);

// Asks the kernel to drop the files' clean pages. Dirty pages are written first.
Status drop_cached(const FileList& files);

// Reads every file once.
Status warm_cache(const FileList& files);

}  // namespace millrace::bench
