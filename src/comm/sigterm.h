// SIGTERM, held back for a while: launchers send it to the ranks that are left in a race with the
// news of a loss, and a rank that ended on the spot could not say why.
#pragma once

namespace millrace::comm {

// For as long as it lives, SIGTERM writes the byte 't' to a descriptor instead of ending the
// process. A program that has its own handler, or installs one later, keeps it. A child of fork()
// is not affected: SIGTERM ends it. One at a time.
class SigtermHeld {
 public:
  explicit SigtermHeld(int wake_fd);
  ~SigtermHeld();
  SigtermHeld(const SigtermHeld&) = delete;
  SigtermHeld& operator=(const SigtermHeld&) = delete;

 private:
  bool held_ = false;
};

// Lets it do what it does by default.
[[noreturn]] void end_by_sigterm();

}  // namespace millrace::comm
