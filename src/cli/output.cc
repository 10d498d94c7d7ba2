#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace millrace::cli {

Output::Output() : terminal_(inspect_terminal(STDOUT_FILENO)) {}

void Output::print(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() && first_os_error_ == 0) first_os_error_ = errno;
}

Status Output::finish() {
  if (std::fflush(stdout) != 0 && first_os_error_ == 0) first_os_error_ = errno;
  if (first_os_error_ != 0)
    return fail_os(first_os_error_, "cannot write").within("standard output");
  return {};
}

}  // namespace millrace::cli
