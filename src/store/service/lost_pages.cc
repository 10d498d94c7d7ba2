#include "store/service/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace millrace::store {
namespace {

uintptr_t page_bytes = 4096;  // written before the handler is installed

// Not on the list of functions that signal handlers may call, but a plain system call.
bool replace_page(void* address) {
  void* const page =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) / page_bytes * page_bytes);
  return ::mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == page;
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const bool is_replaced = info->si_code == BUS_ADRERR && replace_page(info->si_addr);
  errno = saved_errno;
  if (!is_replaced) ::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

void replace_lost_pages() {
  const long found = ::sysconf(_SC_PAGESIZE);
  if (found > 0) page_bytes = static_cast<uintptr_t>(found);
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace millrace::store
