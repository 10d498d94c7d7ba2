// ImportColumns: collects events of many processes, in any order, into the blocks of a packed
// trace.
//
// A TraceWriter needs a process before its events, and each block has events of one process only. A
// foreign file may describe a process at any point. Events are therefore held per process, and a
// process is added to the trace with its first full block, when most is known about it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "interop/event.h"
#include "trace/trace.h"

namespace millrace::interop {

// Adds a row. All rows of a block must be added this way, or none.
void append_event(trace::EventColumns& columns, const Event& event, trace::ThreadIndex thread);

class ImportColumns {
 public:
  // `complete` is called once per process, right before it is added to the trace.
  ImportColumns(trace::TraceWriter& writer, std::function<void(size_t, trace::Process&)> complete)
      : writer_(writer), complete_(std::move(complete)) {}

  // Adds a process and returns its number. Fill it in through process().
  size_t add_process();
  trace::Process& process(size_t index) { return processes_[index]->process; }
  size_t process_count() const { return processes_.size(); }

  // The thread of `event` is ignored.
  Status add(size_t process, uint32_t tid, const Event& event);

  // Writes all held events and all processes, including those without events.
  Status flush();

 private:
  struct HeldProcess {
    trace::Process process;
    bool added = false;
    trace::ProcessIndex index{};
    trace::EventColumns columns;  // thread holds indices into tids
    std::vector<uint32_t> tids;
    std::vector<trace::ThreadIndex> threads;  // parallel to the first entries of tids
    std::unordered_map<uint32_t, uint32_t> thread_numbers;
    uint32_t last_tid = 0;
    uint32_t last_number = ~0u;
  };

  uint32_t thread_number(HeldProcess& held, uint32_t tid);
  Status write(size_t index);

  trace::TraceWriter& writer_;
  std::function<void(size_t, trace::Process&)> complete_;
  std::vector<std::unique_ptr<HeldProcess>> processes_;
  size_t held_events_ = 0;
};

}  // namespace millrace::interop
