// Areas: room for the recordings of children, made before they are forked.
//
// A child that finds an area needs no system call to begin its recording; making files of its own
// would take it longer than many live. wire/trace_session.h has the layout.
#pragma once

#include <atomic>
#include <cstdint>

#include "wire/trace_session.h"

namespace millrace::trace {

class Areas {
 public:
  struct Area {
    wire::ProcessPage* page;
    uint32_t file_process;  // of the file's name
    uint64_t file_ticks;
    uint32_t number;
  };

  // In a process that is about to fork. The first time nothing is made: most programs that fork do
  // it once. `in_use` is a page of this process that must stay mapped.
  void prepare(const char* directory, uint32_t process, uint64_t ticks, const void* in_use);

  // In a child. False where there is none left.
  bool take(Area* area);

 private:
  void make(const char* directory, uint32_t process, uint64_t ticks, const void* in_use);

  // All that a child must know is in the file's header. A child that another thread forks meanwhile
  // sees either the file before or the new one, and never a part of each.
  std::atomic<wire::AreasHeader*> file_{nullptr};
  std::atomic<uint32_t> forks_{0};
  // Whoever set it may look at the file and replace it.
  std::atomic<bool> preparing_{false};
};

}  // namespace millrace::trace
