// Output: where a verb's results go.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/terminal.h"

namespace millrace::cli {

// Standard output, buffered. A failed write (a full disk behind a redirection) is kept and reported
// by finish(), so that no verb has to look after each line.
class Output {
 public:
  Output();

  const Terminal& terminal() const { return terminal_; }
  void print(std::string_view text);

  // Everything printed has been written, or the reason why not.
  Status finish();

 private:
  Terminal terminal_;
  int first_os_error_ = 0;
};

}  // namespace millrace::cli
