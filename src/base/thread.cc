#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kNameLengthMax = 15;  // of the kernel; a longer one would be refused

// Faults are not held back: whoever handles them must be called on the thread that made them, and
// a fault that is blocked ends the program with no word.
sigset_t signals_of_the_program() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&signals, fault);
  }
  return signals;
}

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> run) {
  // A new thread has the mask of its maker. Blocked on the new one, a signal could come before.
  sigset_t before;
  const sigset_t blocked = signals_of_the_program();
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Result<std::thread> started = std::thread();
  try {
    std::thread thread(std::move(run));
    pthread_setname_np(thread.native_handle(), name.substr(0, kNameLengthMax).c_str());
    started = std::move(thread);
  } catch (const std::system_error& error) {
    started = fail_os(error.code().value(), "cannot start a thread");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace millrace
