// SystemCallTracer: the watcher's loop. It waits for the stops of all threads, and resumes each so
// that the program notices nothing.
//
// Signals, stops and continues of the programs pass through unchanged. Processes that a watched
// process starts are watched too.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "trace/all/call_follower.h"
#include "trace/all/traced_process.h"

namespace millrace::trace {

class SystemCallTracer {
 public:
  explicit SystemCallTracer(CallFollower follower) : follower_(std::move(follower)) {}

  // Starts to watch a process that has not installed its filter yet. Returns 0 or an errno value.
  // Nothing is recorded before it calls exec. If this process is killed, the kernel kills what it
  // watches: with the filter but without us, every I/O call of theirs would fail.
  int attach(uint32_t pid);

  // Returns when nothing is left to watch.
  void run();

 private:
  void on_gone(uint32_t tid, int status);
  void on_stop(uint32_t tid, int status);
  void on_event(TracedThread& thread, int event, int signal);
  void on_filtered_call(TracedThread& thread);
  void on_call_end(TracedThread& thread);
  void on_exec(uint32_t pid);
  void on_child(TracedThread& parent, uint32_t tid);

  TracedThread& add_child(const TracedThread& parent, uint32_t tid);
  TracedThread& adopt(uint32_t tid);
  void resume(const TracedThread& thread, int signal);

  CallFollower follower_;
  std::unordered_map<uint32_t, TracedThread> threads_;
  std::unordered_set<uint32_t> adopted_;  // their parents' stops have not been seen yet
};

}  // namespace millrace::trace
