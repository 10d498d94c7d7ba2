#include "comm/own_file.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/concurrency/mutex.h"

namespace millrace::comm {
namespace {

// All open OwnFiles of this process. Never destroyed: an OwnFile may outlive any static.
struct OpenFiles {
  Mutex mutex;  // held while the process forks
  std::vector<int> fds GUARDED_BY(mutex);
};

OpenFiles& open_files() {
  static OpenFiles* const files = [] {
    auto* made = new OpenFiles;
    // Not analysed: the lock is held from one handler to the next.
    pthread_atfork([]() NO_THREAD_SAFETY_ANALYSIS { open_files().mutex.lock(); },
                   []() NO_THREAD_SAFETY_ANALYSIS { open_files().mutex.unlock(); },
                   []() NO_THREAD_SAFETY_ANALYSIS {
                     for (const int fd : open_files().fds) close(fd);
                     open_files().fds.clear();
                     open_files().mutex.unlock();
                   });
    return made;
  }();
  return *files;
}

}  // namespace

NoFork::NoFork() { open_files().mutex.lock(); }
NoFork::~NoFork() { open_files().mutex.unlock(); }

OwnFile::OwnFile(int fd, const NoFork&) : fd_(fd), process_(getpid()) {
  if (fd >= 0) open_files().fds.push_back(fd);
}

OwnFile::OwnFile(OwnFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), process_(other.process_) {}

OwnFile& OwnFile::operator=(OwnFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(process_, other.process_);
  return *this;
}

OwnFile::~OwnFile() {
  if (fd_ < 0 || getpid() != process_) return;
  const NoFork no_fork;
  std::vector<int>& fds = open_files().fds;
  std::erase(fds, fd_);
  close(fd_);
}

}  // namespace millrace::comm
