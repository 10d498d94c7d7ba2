// SIGTERM, delayed: when a rank is lost, launchers send SIGTERM to the others, which may arrive
// before the news of the loss. A rank that ended at once could not say why.
#pragma once

namespace millrace::comm {

// While it lives, SIGTERM writes the byte 't' to a descriptor instead of ending the process. A
// handler that the program has, or installs later, stays in place. A child of fork() is not
// affected: SIGTERM ends it. Only one may exist at a time.
class SigtermHeld {
 public:
  explicit SigtermHeld(int wake_fd);
  ~SigtermHeld();
  SigtermHeld(const SigtermHeld&) = delete;
  SigtermHeld& operator=(const SigtermHeld&) = delete;

 private:
  bool held_ = false;
};

// Ends the process as SIGTERM does by default.
[[noreturn]] void end_by_sigterm();

}  // namespace millrace::comm
