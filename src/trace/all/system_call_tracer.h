// SystemCallTracer: the one who watches: it waits for the stops of all its threads and lets each go
// on as if nobody had looked.
//
// Signals, stops and continues of the programs pass through as they are. What a watched process
// starts is watched too.
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

  // Begins to watch a process that has not installed its filter yet. 0, or an errno value. Nothing
  // is recorded before it calls exec. Should this process be killed, the kernel kills what it
  // watches: with the filter and without us, their I/O would fail call by call.
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
  std::unordered_set<uint32_t> adopted_;  // whose parents have yet to tell of them
};

}  // namespace millrace::trace
