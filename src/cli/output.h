// Output: where the results of a verb go.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/system/terminal.h"

namespace millrace::cli {

// Buffered standard output. finish() reports the first failed write (for example, a full disk), so
// that verbs need not check each line.
class Output {
 public:
  Output();

  const Terminal& terminal() const { return terminal_; }
  void print(std::string_view text);

  // Flushes. Fails if anything could not be written.
  Status finish();

 private:
  Terminal terminal_;
  int first_os_error_ = 0;
};

}  // namespace millrace::cli
