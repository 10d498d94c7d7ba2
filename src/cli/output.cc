#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "comm/connect.h"

namespace millrace::cli {

Output::Output() : terminal_(inspect_terminal(STDOUT_FILENO)) {
  // mpirun gives each rank a terminal, but may redirect the output to a file.
  const auto launch = comm::find_launch([](const char* name) { return std::getenv(name); });
  const bool is_a_rank = launch.ok() && launch->by_mpi && launch->size != 1;
  if (is_a_rank && std::getenv("CLICOLOR_FORCE") == nullptr) terminal_.color = false;
}

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
