// OwnFile: a descriptor that belongs to this process alone. A child of fork() does not keep it.
//
// A connection ends for its peer only when the last process that has it open is gone. So the death
// of a rank would go unnoticed while a process that it forked lives on. Linux has no flag that
// closes a descriptor at fork() as O_CLOEXEC does at exec, so a pthread_atfork() handler closes
// them in the child. A child made with clone(2) instead of fork() keeps them.
//
// In a child, an OwnFile of the parent holds the number of a closed descriptor. Its destructor does
// nothing there.
#pragma once

#include <sys/types.h>

namespace millrace::comm {

// Blocks fork() on other threads while it lives. Hold it from the call that makes a descriptor
// until an OwnFile owns it; otherwise a child could inherit the descriptor. Hold it only briefly.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

class OwnFile {
 public:
  OwnFile() = default;
  // Takes over an open descriptor, or -1 for none.
  OwnFile(int fd, const NoFork& no_fork);
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;
  ~OwnFile();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  pid_t process_ = 0;
};

}  // namespace millrace::comm
