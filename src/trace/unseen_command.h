// UnseenCommand: the launcher's command when the recorder cannot be in it, as the trace shows it: a
// process without events, and how it ended.
//
// Without it the trace of a statically linked program would be empty, and nobody could say why.
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
  // `executable` is the file that `command` names. What cannot be written is counted in the
  // session's page.
  UnseenCommand(const std::filesystem::path& session, pid_t child, const std::string& executable,
                const std::vector<std::string>& command);
  ~UnseenCommand();

  void end(int wait_status);

 private:
  std::unique_ptr<RecordingWriter> writer_;  // null: the session cannot be written to
};

}  // namespace millrace::trace
