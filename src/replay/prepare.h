// Prepare: makes the folder of a replay ready: the files that the trace reads, and nothing else.
//
// Everything is below one folder. A symbolic link on the way to any file of the plan is an error,
// so neither the preparation nor the replay can follow one out of the folder. Directories get mode
// 0700 and files 0600. Existing files are used as they are; a plan that would modify an existing
// file is refused unless the user allows it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "replay/plan.h"

namespace millrace::replay {

struct PrepareOptions {
  std::string onto;            // the folder; created if it is missing
  bool fill = false;           // write pseudo-random bytes; otherwise files are sparse
  bool overwrite = false;      // the replay may modify existing files
  bool drop_cache = false;     // also of existing files
  bool only_existing = false;  // fail instead of creating or modifying anything
  const std::atomic<bool>* stop = nullptr;
};

struct Prepared {
  std::string onto;         // absolute, without symbolic links
  uint64_t file_count = 0;  // created now
  uint64_t size_bytes = 0;
  uint64_t existing_count = 0;           // used as they are
  uint64_t too_small_count = 0;          // of them, shorter than what the trace reads
  std::vector<bool> existed;             // by path: was there before
  std::vector<std::string> directories;  // created now, parents first
};

// Checks the folder and its free space before anything is created. If it fails later, files remain
// that clean() would remove.
Result<Prepared> prepare(const Plan& plan, const PrepareOptions& options);

// Removes what prepare() and the replay created. Returns the number of files that remain because
// they could not be removed.
uint64_t clean(const Plan& plan, const Prepared& prepared);

// "ONTO/relative".
std::string place_of(const Plan& plan, const std::string& onto, uint32_t path);

}  // namespace millrace::replay
