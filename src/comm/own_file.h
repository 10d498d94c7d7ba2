// OwnFile: a descriptor that belongs to this process alone. A child of fork() does not keep it.
//
// A connection ends for its peer when the last process that has it open is gone. A rank that is
// killed would not be missed as long as a process that it forked lives on. Linux has no flag that
// closes a descriptor at fork() as O_CLOEXEC does at exec, so a handler of pthread_atfork() closes
// them in the child. Who makes a process by clone(2) itself, without fork(), keeps them.
//
// In the child an OwnFile of the parent has the number of a descriptor that is closed. Its
// destructor does nothing there.
#pragma once

#include <sys/types.h>

namespace millrace::comm {

// While it lives, fork() on another thread waits. Between the call that makes a descriptor and the
// OwnFile that owns it, so that no child has it unseen. For short calls that do not wait.
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
