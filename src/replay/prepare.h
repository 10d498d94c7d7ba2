// Prepare: makes the folder of a replay ready: the files that the trace reads, and nothing else.
//
// Everything is below one folder (folder.h). A symbolic link or a special file in place of a file
// of the plan is an error. What exists is used as it is: a plan that would change it is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "replay/folder.h"
#include "replay/plan.h"

namespace millrace::replay {

struct PrepareOptions {
  std::string onto;            // the folder; created if it is missing
  bool fill = false;           // write pseudo-random bytes; otherwise files are sparse
  bool drop_cache = false;     // also of existing files
  bool only_existing = false;  // fail instead of creating or modifying anything
  const std::atomic<bool>* stop = nullptr;
};

struct Prepared {
  std::unique_ptr<Folder> folder;
  uint64_t file_count = 0;  // created now
  uint64_t size_bytes = 0;
  uint64_t existing_count = 0;           // used as they are
  uint64_t too_small_count = 0;          // of them, shorter than what the trace reads
  std::vector<bool> existed;             // by path: was there before
  std::vector<std::string> directories;  // names of those created now, parents first
};

// Checks the folder and its free space before anything is created. If it fails later, it removes
// what it has created.
Result<Prepared> prepare(const Plan& plan, const PrepareOptions& options);

enum class Keep : uint8_t {
  kInputs,   // what prepare() created and the replay did not change, for the next replay
  kNothing,  // of what this replay created
};

// Removes what the replay created, and with kNothing also what prepare() did. Returns the names of
// what stays there because somebody else made it, or it cannot be removed.
std::vector<std::string> clean(const Plan& plan, const Prepared& prepared, Keep keep);

}  // namespace millrace::replay
