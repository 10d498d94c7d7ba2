// Members: finds the members of a trace at a path, and opens them.
//
// A member is one packed trace or one recording, with its own indices and times. The trace merges
// the tables of its members and maps their clocks onto a common one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/columns.h"
#include "trace/read/tables.h"
#include "trace/trace.h"

namespace millrace::trace {

class Member {
 public:
  virtual ~Member() = default;

  virtual const Tables& tables() const = 0;
  virtual const std::vector<BlockInfo>& blocks() const = 0;
  virtual const std::vector<std::string>& problems() const = 0;
  virtual int64_t origin_wall_ns() const = 0;

  // Moves the names out of tables(), so that a trace of a million files stores them once.
  virtual std::vector<std::string> release_names() = 0;

  // Like Trace::read_block, with the member's indices and times. Several threads may read at the
  // same time.
  virtual Status read(size_t block, EventColumns& columns) const = 0;

  // Like Trace::block_levels.
  virtual Result<uint32_t> levels(size_t block) const = 0;
};

struct OpenedMembers {
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::string> problems;  // files that could not be opened
};

// `path` as for Trace::open. Fails if there is no trace.
Result<OpenedMembers> open_members(const std::string& path);

// Opens everything usable in several paths. If nothing is, fails and says what is wrong with each.
Result<OpenedMembers> open_members(const std::vector<std::string>& paths);

// `paths` in order, without those that would be read twice: the same path under another name, or a
// file or session in a directory that is also listed.
std::vector<std::string> without_repeats(const std::vector<std::string>& paths);

}  // namespace millrace::trace
