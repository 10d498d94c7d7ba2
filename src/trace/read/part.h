// Part: one packed file or one recording of a trace, with its own indices and times.
//
// A trace joins its parts: it merges their tables and maps their clocks onto a common one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/columns.h"
#include "trace/read/tables.h"
#include "trace/trace.h"

namespace millrace::trace {

class Part {
 public:
  virtual ~Part() = default;

  virtual const Tables& tables() const = 0;
  virtual const std::vector<BlockInfo>& blocks() const = 0;
  virtual const std::vector<std::string>& problems() const = 0;
  virtual int64_t origin_wall_ns() const = 0;

  // Moves the names out of tables(), so that a trace of a million files stores them once.
  virtual std::vector<std::string> release_names() = 0;

  // Like Trace::read_block, with the part's indices and times. Several threads may read at the same
  // time.
  virtual Status read(size_t block, EventColumns& columns) const = 0;

  // Like Trace::block_levels.
  virtual Result<uint32_t> levels(size_t block) const = 0;
};

}  // namespace millrace::trace
