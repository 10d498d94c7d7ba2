// Rings: where the threads of this process record, and how a full ring is appended to the log.
//
// A ring belongs to one thread at a time. When the thread ends, the next new thread continues in
// it. A ring is a shared mapping of the process's .rings file, so its contents survive the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "hook/arena.h"
#include "hook/tagged_stack.h"
#include "trace/preload/child_pages.h"
#include "trace/preload/text.h"
#include "trace/preload/turn.h"
#include "trace/preload/writer.h"
#include "wire/trace_session.h"

namespace millrace::trace {

class Rings {
 public:
  // Creates the process's files, with one ring, in the session's directory, and gives this thread
  // the ring. Keeps `directory`. Null if that fails; *error is then the errno value.
  wire::ProcessPage* create(const char* directory, uint32_t process, uint64_t ticks, int* error);

  // The same in a child page that the parent made. Makes no system call.
  wire::ProcessPage* adopt(const char* directory, uint32_t process, const ChildPages::Page& given);

  // Gives the thread a ring: one that another thread has left, or a new one.
  bool take(Writer& to, int* error);

  // The thread ends; its ring becomes free.
  void leave(Writer& from);

  // Appends the ring to the log and empties it. If that fails, its events are counted as lost.
  void write_out(Writer& of);

  // A vfork child of this thread has ended. It may have been killed while it appended.
  void child_is_gone(const Writer& of) { log_turn_.leave(of.thread); }

  wire::ProcessPage* page() { return page_; }

  // In a forked child: forgets the parent's rings.
  void forget();

 private:
  struct Info {
    wire::Ring* ring;
    wire::TraceSlot* next;  // where its last thread stopped
    std::atomic<uint32_t> next_free;
    uint32_t reserved;
  };

  wire::ProcessPage* begin(void* memory, uint32_t process);
  void enter(Writer& to, uint32_t number, wire::TraceSlot* next);
  wire::Ring* map_ring(uint32_t number, int* error);
  auto next_of() {
    return [this](uint32_t entry) -> std::atomic<uint32_t>& {
      return infos_.find(entry - 1)->next_free;
    };
  }

  // The path of one of the process's files. Built each time: storing it would be one more page for
  // every forked child to copy.
  void write_path(const char* ending, PathText& out) const;

  wire::ProcessPage* page_ = nullptr;
  const char* directory_ = nullptr;
  // The name of the process's files: PID-TICKS, or areas-PID-TICKS@NUMBER.
  static constexpr uint32_t kNoChildPage = ~uint32_t{0};
  uint64_t name_ticks_ = 0;
  uint32_t name_process_ = 0;
  uint32_t child_page_ = kNoChildPage;
  std::atomic<uint32_t> count_{0};
  hook::TaggedStack free_;  // ring numbers + 1
  hook::Arena<Info, 1024, 4096> infos_;
  Turn log_turn_;
};

// Adds to loss counters that other threads and processes also add to.
void add_loss(wire::LossCounters& counters, uint64_t events, uint64_t first_ticks,
              uint64_t last_ticks, int error);

}  // namespace millrace::trace
