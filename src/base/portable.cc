// Portable: provides what the C++ runtime of GCC 12 has and older ones lack. Only in builds with
// MILLRACE_PORTABLE.
//
// Since GCC 12, std::condition_variable::wait() has its own symbol version (GLIBCXX_3.4.30),
// because it is declared noexcept. A program that calls it does not start with the runtime of GCC
// 11 (RHEL 9). The linker prefers this definition, which equals that of GCC 11.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) noexcept {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
