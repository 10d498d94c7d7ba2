// UnseenCommand: records a command that cannot load the recorder, as a process without events and
// with its exit status.
//
// Without this, the trace of a statically linked program would be empty without any explanation.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace millrace::trace {

class RecordingWriter;

class UnseenCommand {
 public:
  // `executable` is the file that `command` runs. Failures are counted in the session's page.
  UnseenCommand(const std::filesystem::path& session, pid_t child, const std::string& executable,
                const std::vector<std::string>& command);
  ~UnseenCommand();

  void end(int wait_status);

 private:
  std::unique_ptr<RecordingWriter> writer_;  // null: the session is not writable
};

}  // namespace millrace::trace
