#include "trace/all/system_call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>

#include "trace/all/system_calls.h"

namespace millrace::trace {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kOwnArchitecture = AUDIT_ARCH_X86_64;
// read, write, open, pread64, pwrite64, readv, writev, openat, preadv, pwritev, mmap2 of i386.
constexpr uint32_t kForeignCalls[] = {3, 4, 5, 180, 181, 145, 146, 295, 333, 334, 192};
#else
constexpr uint32_t kOwnArchitecture = AUDIT_ARCH_AARCH64;
// The same calls on 32-bit ARM.
constexpr uint32_t kForeignCalls[] = {3, 4, 5, 180, 181, 145, 146, 322, 361, 362, 192};
#endif

// The fcntl commands that make a descriptor or take a lock. The others are too frequent.
constexpr uint32_t kFcntlCommands[] = {F_DUPFD,  F_DUPFD_CLOEXEC, F_SETLK,
                                       F_SETLKW, F_OFD_SETLK,     F_OFD_SETLKW};

// Jumps reach only 255 instructions, so each test has its own verdict instead of jumping to a
// shared one.
class Program {
 public:
  void add(uint16_t code, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    if (size_ < std::size(code_)) code_[size_++] = {code, if_true, if_false, value};
  }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void verdict(uint32_t action) { add(BPF_RET | BPF_K, action); }
  void verdict_if_equal(uint32_t value, uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    verdict(action);
  }
  void skip_unless_equal(uint32_t value, size_t instructions) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<uint8_t>(instructions));
  }

  sock_fprog finished() { return {static_cast<unsigned short>(size_), code_}; }

 private:
  sock_filter code_[512];
  size_t size_ = 0;
};

constexpr size_t argument_offset(size_t index) {
  return offsetof(seccomp_data, args) + index * sizeof(uint64_t);  // the low half: little-endian
}

constexpr uint32_t stop(FilterVerdict verdict) {
  return SECCOMP_RET_TRACE | static_cast<uint32_t>(verdict);
}

// The size of a list of tests, with one load before and one verdict after them.
constexpr size_t kForeignSize = 2 * std::size(kForeignCalls) + 2;

void build(Program& program) {
  program.load(offsetof(seccomp_data, arch));
  program.add(BPF_JMP | BPF_JEQ | BPF_K, kOwnArchitecture, kForeignSize, 0);
  program.load(offsetof(seccomp_data, nr));
  for (const uint32_t number : kForeignCalls) {
    program.verdict_if_equal(number, stop(FilterVerdict::kForeign));
  }
  program.verdict(SECCOMP_RET_ALLOW);

  program.load(offsetof(seccomp_data, nr));
  // Anonymous memory is not a file.
  program.skip_unless_equal(SYS_mmap, 4);
  program.load(argument_offset(3));
  program.add(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1);
  program.verdict(SECCOMP_RET_ALLOW);
  program.verdict(stop(FilterVerdict::kFollowed));
  program.skip_unless_equal(SYS_fcntl, 2 * std::size(kFcntlCommands) + 2);
  program.load(argument_offset(1));
  for (const uint32_t command : kFcntlCommands) {
    program.verdict_if_equal(command, stop(FilterVerdict::kFollowed));
  }
  program.verdict(SECCOMP_RET_ALLOW);
  for (const SystemCall& call : followed_system_calls()) {
    program.verdict_if_equal(static_cast<uint32_t>(call.number), stop(FilterVerdict::kFollowed));
  }
  program.verdict(SECCOMP_RET_ALLOW);
}

}  // namespace

int install_system_call_filter() {
  Program program;
  build(program);
  const sock_fprog code = program.finished();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &code) == 0) return 0;
  if (errno != EACCES) return errno;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &code) == 0 ? 0 : errno;
}

}  // namespace millrace::trace
