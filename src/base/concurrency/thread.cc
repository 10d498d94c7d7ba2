#include "base/concurrency/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kNameLengthMax = 15;  // limit of the kernel, which refuses longer names

// Faults are not blocked: their handlers must run on the thread that caused them, and a blocked
// fault kills the program silently.
sigset_t signals_of_the_program() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&signals, fault);
  }
  return signals;
}

// Struct sched_attr of the kernel, which glibc of Debian 12 lacks.
struct SchedulingAttributes {
  uint32_t size_bytes = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> run) {
  // A new thread inherits the signal mask. If the new thread blocked signals itself, one could
  // arrive before that.
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

Result<std::vector<std::thread>> start_threads(const std::string& name, size_t count,
                                               const std::function<void()>& run) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    auto thread = start_thread(fmt::format("{} {}", name, i), run);
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else if (threads.empty()) {
      return std::move(thread).error();
    }
  }
  return threads;
}

void ask_for_short_slices() {
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.slice_ns = 100'000;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace millrace
