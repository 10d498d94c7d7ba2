// extract: writes the files of a pack into a directory, as they were.
//
// The owner is whoever extracts, so set-user-ID and set-group-ID bits are dropped. Two names of one
// file become two files, and long runs of zeros become holes. The directory must be new or empty,
// and links are made last, so nothing can be written outside of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "store/pack/pack.h"

namespace millrace::store {

struct ExtractOptions {
  std::filesystem::path directory;
  // Only these, with the directories above them; `*` also matches /. Empty: everything.
  std::vector<std::string> globs;
  size_t thread_count = 0;                           // 0: as many as there are CPUs
  std::function<void(uint64_t bytes)> on_extracted;  // called by any thread; may be empty
};

struct ExtractReport {
  uint64_t file_count = 0;
  uint64_t size_bytes = 0;
  uint64_t changed_mode_count = 0;  // without their set-user-ID, set-group-ID or sticky bit
};

// The ranks of `comm` share the work.
Result<ExtractReport> extract_pack(const PackReader& reader, const ExtractOptions& options,
                                   comm::Comm& comm);

}  // namespace millrace::store
