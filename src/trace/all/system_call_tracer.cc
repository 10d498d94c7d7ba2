#include "trace/all/system_call_tracer.h"

#include <errno.h>
#include <linux/ptrace.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/all/remote.h"
#include "trace/all/system_call_filter.h"

namespace millrace::trace {
namespace {

constexpr uintptr_t kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP |
                               PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                               PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
constexpr int kCallStop = SIGTRAP | 0x80;  // TRACESYSGOOD

// Not libc's ptrace: its header conflicts with the kernel's, which has everything we need.
long call_ptrace(unsigned request, uint32_t tid, uintptr_t address, uintptr_t data) {
  return syscall(SYS_ptrace, request, tid, address, data);
}

uint64_t event_message(uint32_t tid) {
  unsigned long message = 0;
  call_ptrace(PTRACE_GETEVENTMSG, tid, 0, reinterpret_cast<uintptr_t>(&message));
  return message;
}

bool read_call(uint32_t tid, ptrace_syscall_info& info) {
  return call_ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info),
                     reinterpret_cast<uintptr_t>(&info)) > 0;
}

bool stops_its_group(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

}  // namespace

int SystemCallTracer::attach(uint32_t pid) {
  if (call_ptrace(PTRACE_SEIZE, pid, 0, kOptions) != 0) return errno;
  TracedThread& thread = threads_[pid];
  thread.tid = pid;
  thread.process = std::make_shared<TracedProcess>();
  thread.process->pid = pid;
  return 0;
}

// Peeks before it reaps: the kernel tells a process's parent of its end when we reap it, and its
// recording must be complete by then.
void SystemCallTracer::run() {
  for (;;) {
    siginfo_t next{};
    if (waitid(P_ALL, 0, &next, WEXITED | WSTOPPED | WNOWAIT | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    const auto tid = static_cast<uint32_t>(next.si_pid);
    if (next.si_code == CLD_EXITED) on_gone(tid, next.si_status << 8);
    if (next.si_code == CLD_KILLED || next.si_code == CLD_DUMPED) on_gone(tid, next.si_status);
    int status = 0;
    if (waitpid(next.si_pid, &status, __WALL) < 0) continue;
    if (WIFSTOPPED(status)) {
      on_stop(tid, status);
    } else {
      on_gone(tid, status);  // killed between the two; otherwise already known
    }
  }
}

// The end of its first thread is the end of a process, even if that thread had exited long before.
void SystemCallTracer::on_gone(uint32_t tid, int status) {
  const auto found = threads_.find(tid);
  if (found == threads_.end()) return;
  if (tid == found->second.process->pid) follower_.ended(*found->second.process, status);
  threads_.erase(found);
}

void SystemCallTracer::on_stop(uint32_t tid, int status) {
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (event == PTRACE_EVENT_EXEC) on_exec(tid);
  const auto found = threads_.find(tid);
  TracedThread& thread = found != threads_.end() ? found->second : adopt(tid);
  if (event != 0) {
    on_event(thread, event, signal);
  } else if (signal == kCallStop) {
    on_call_end(thread);
    resume(thread, 0);
  } else {
    resume(thread, signal);  // the program's own signal, including SIGTRAP
  }
}

void SystemCallTracer::on_event(TracedThread& thread, int event, int signal) {
  switch (event) {
    case PTRACE_EVENT_SECCOMP:
      on_filtered_call(thread);
      break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
      on_child(thread, static_cast<uint32_t>(event_message(thread.tid)));
      break;
    case PTRACE_EVENT_EXIT:
      follower_.ending(thread);
      break;
    case PTRACE_EVENT_STOP:
      // A stopped job stays stopped, and its shell notified, until somebody continues it.
      if (stops_its_group(signal)) {
        call_ptrace(PTRACE_LISTEN, thread.tid, 0, 0);
        return;
      }
      break;
    default:
      break;
  }
  resume(thread, 0);
}

void SystemCallTracer::on_filtered_call(TracedThread& thread) {
  ptrace_syscall_info info{};
  if (!read_call(thread.tid, info) || info.op != PTRACE_SYSCALL_INFO_SECCOMP) return;
  if (info.seccomp.ret_data == static_cast<uint32_t>(FilterVerdict::kForeign)) {
    follower_.count_foreign(thread);
    return;
  }
  CallEntry entry{.number = info.seccomp.nr,
                  .instruction = info.instruction_pointer,
                  .stack = info.stack_pointer};
  for (size_t i = 0; i < std::size(entry.arguments); ++i) entry.arguments[i] = info.seccomp.args[i];
  if (!follower_.begin(thread, entry)) thread.pending.reset();
}

void SystemCallTracer::on_call_end(TracedThread& thread) {
  ptrace_syscall_info info{};
  if (!thread.pending || !read_call(thread.tid, info) || info.op != PTRACE_SYSCALL_INFO_EXIT) {
    return;
  }
  follower_.finish(thread, info.exit.rval);
}

// The thread that called exec continues as the first thread of its process; the others are gone.
void SystemCallTracer::on_exec(uint32_t pid) {
  const auto caller = static_cast<uint32_t>(event_message(pid));
  const auto found = threads_.find(caller == 0 ? pid : caller);
  if (found == threads_.end()) {
    follower_.executed(adopt(pid));
    return;
  }
  TracedThread thread = std::move(found->second);
  std::erase_if(threads_,
                [&](const auto& entry) { return entry.second.process == thread.process; });
  follower_.executed(thread);
  thread.tid = pid;
  threads_[pid] = std::move(thread);
}

void SystemCallTracer::on_child(TracedThread& parent, uint32_t tid) {
  parent.cloning = false;
  if (tid != 0 && adopted_.erase(tid) == 0) add_child(parent, tid);
}

TracedThread& SystemCallTracer::add_child(const TracedThread& parent, uint32_t tid) {
  TracedThread child{.tid = tid};
  if ((parent.clone_flags & CLONE_THREAD) != 0) {
    child.process = parent.process;
  } else {
    child.process = std::make_shared<TracedProcess>();
    child.process->pid = tid;
    follower_.forked(*child.process, *parent.process, parent.clone_flags);
    if (parent.clone_is_ours) child.process->recorded = false;
    follower_.started(*child.process);
  }
  return threads_[tid] = std::move(child);
}

// A thread that stops before its parent's stop was seen. This is the usual order; it may even end
// before. The kernel says which process made it, and the thread of that process that is in clone
// says how. Several threads may be in clone at the same time. A child begins at the instruction of
// its maker and, unless it was given its own stack, on a copy of its maker's stack.
TracedThread& SystemCallTracer::adopt(uint32_t tid) {
  const uint32_t group = read_thread_group(tid);
  const bool is_thread = group != 0 && group != tid;
  const uint32_t parent = is_thread ? group : read_stat(tid).parent_pid;
  adopted_.insert(tid);
  ptrace_syscall_info begin{};  // any kind of stop has the two addresses
  read_call(tid, begin);
  TracedThread gone{.clone_flags = is_thread ? uint64_t{CLONE_THREAD} : SIGCHLD};
  const TracedThread* maker = nullptr;
  int likeness_max = -1;
  for (const auto& [id, thread] : threads_) {
    if (thread.process->pid != parent) continue;
    gone.process = thread.process;
    const bool makes_thread = (thread.clone_flags & CLONE_THREAD) != 0;
    if (!thread.cloning || makes_thread != is_thread) continue;
    const int likeness = int{thread.clone_instruction == begin.instruction_pointer} +
                         int{thread.clone_stack == begin.stack_pointer};
    if (likeness <= likeness_max) continue;
    likeness_max = likeness;
    maker = &thread;
  }
  if (maker == nullptr && gone.process) maker = &gone;  // the thread that was making it is gone
  if (maker != nullptr) return add_child(*maker, tid);
  // An orphan, or a child of its maker's parent (CLONE_PARENT).
  TracedThread& thread = threads_[tid];
  thread.tid = tid;
  thread.process = std::make_shared<TracedProcess>();
  thread.process->pid = is_thread ? group : tid;
  thread.process->image.pid = thread.process->pid;
  thread.process->image.start_ticks = follower_.now();
  thread.process->recorded = true;
  return thread;
}

// Resumes until the end of the current call if that is needed, else until the next filtered call.
// If the thread was killed in the meantime, wait will report it.
void SystemCallTracer::resume(const TracedThread& thread, int signal) {
  call_ptrace(thread.pending ? PTRACE_SYSCALL : PTRACE_CONT, thread.tid, 0,
              static_cast<uintptr_t>(signal));
}

}  // namespace millrace::trace
