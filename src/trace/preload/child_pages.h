// ChildPages: pages made before children are forked, for their recordings.
//
// A child that finds a free child page needs no system call to start its recording. Creating its
// own files would take longer than many children live. wire/trace_session.h has the layout.
#pragma once

#include <atomic>
#include <cstdint>

#include "wire/trace_session.h"

namespace millrace::trace {

class ChildPages {
 public:
  struct Page {
    wire::ProcessPage* page;
    uint32_t file_process;  // in the file's name
    uint64_t file_ticks;
    uint32_t number;
  };

  // Call in a process that is about to fork. Does nothing the first time, because most programs
  // that fork do so once. `in_use` is a page of this process that must stay mapped.
  void prepare(const char* directory, uint32_t process, uint64_t ticks, const void* in_use);

  // Call in a child. False if no page is left.
  bool take(Page* page);

 private:
  void make(const char* directory, uint32_t process, uint64_t ticks, const void* in_use);

  // The file's header contains all that a child needs. A child that another thread forks in the
  // meantime sees either the old file or the new one, never a mixture.
  std::atomic<wire::ChildPagesHeader*> file_{nullptr};
  std::atomic<uint32_t> forks_{0};
  // Only the thread that set it may access and replace the file.
  std::atomic<bool> preparing_{false};
};

}  // namespace millrace::trace
