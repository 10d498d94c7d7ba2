// Recorder: what a hook needs to record its call.
//
//   if (!recording(Level::kPosix)) return real(...);
//   return traced({.call = Call::kFsync, .file = file_of(fd)}, [&] { return real(fd); });
//
// The first call of a process, or of a forked child, opens its recording. Everything here may be
// called on any thread and in a signal handler, preserves errno and never fails. What cannot be
// recorded is counted (ProcessPage::lost, SessionPage::lost).
#pragma once

#include <errno.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "hook/descriptors.h"
#include "hook/environment.h"
#include "hook/syscall.h"
#include "trace/preload/name_table.h"
#include "trace/preload/settings.h"
#include "trace/preload/writer.h"
#include "wire/clock.h"
#include "wire/trace_call.h"
#include "wire/trace_record.h"

namespace millrace::trace {

using wire::Call;
using wire::kNoName;
using wire::kNoOffset;
using wire::Level;
using wire::NameId;

// A word that the kernel zeroes in every forked child.
//
// pthread_atfork handlers miss children made by clone or a raw system call. A page with
// MADV_WIPEONFORK misses none. A vfork child shares its parent's memory, so its word is not zeroed.
class ForkSentinel {
 public:
  // The value last set in this process; 0 in a child that has not set one.
  uint32_t value() const { return word_->load(std::memory_order_relaxed); }
  void set(uint32_t value) { word_->store(value, std::memory_order_relaxed); }

  // False if the kernel has no MADV_WIPEONFORK (before 4.14). The fork hook must then call set(0)
  // in the child.
  bool install() {
    void* page = hook::sys_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == nullptr) return false;
    const bool wiped = hook::sys_madvise(page, 4096, MADV_WIPEONFORK) == 0;
    word_ = static_cast<std::atomic<uint32_t>*>(page);
    return wiped;
  }

 private:
  std::atomic<uint32_t> before_install_{0};
  std::atomic<uint32_t>* word_ = &before_install_;
};

// The state of the process. Plain memory, constructed at compile time, because hooks run before any
// constructor.
struct Recorder {
  // The recorded levels, with kReady. The upper bits hold a number that no ancestor has. 0 if this
  // process has not begun to record.
  ForkSentinel gate;
  bool ticks_from_cpu = false;
  bool paused = false;  // pause_recording(): no level; a forked child inherits it
  Settings settings;
  NameTable names;
  hook::Descriptors descriptors;
};
extern constinit Recorder recorder;

// What programs need that a traced program starts.
inline constinit hook::Environment kept_environment;

inline constexpr uint32_t kReady = 1;  // the bit of Level::kNone: set whatever the levels are
inline constexpr uint32_t kStopped = 1u << 7;  // stop_recording(): no level, and not started again

// Opens the recording of this process. Returns the levels that are on, or 0 if nothing is recorded.
uint32_t begin_recording();

inline bool recording(Level level) {
  uint32_t on = recorder.gate.value();
  if (__builtin_expect(on == 0, 0)) on = begin_recording();
  return (on >> static_cast<uint32_t>(level) & 1) != 0;
}

// Whether this process records anything at all. Even if a call's own level is off, the table of
// descriptors and the environment of children are maintained.
inline bool tracking() { return recording(Level::kNone); }

inline uint64_t now() {
  return recorder.ticks_from_cpu ? wire::read_cpu_counter() : wire::monotonic_clock_ns();
}

// What is known about a call before it is made, or learned from it.
struct Event {
  Call call;
  NameId file = kNoName;
  uint64_t offset = kNoOffset;
  uint64_t size = 0;
  NameId other_file = kNoName;
  uint64_t other_offset = kNoOffset;
  uint32_t detail = 0;
  uint8_t flags = 0;
};

struct Outcome {
  uint64_t begin_ticks;
  uint64_t end_ticks;
  int64_t result;
  int error = 0;  // errno if the call failed
};

// The general form, in as many slots as needed. Returns the first, or null if the event was lost.
wire::TraceSlot* record_wide(const Event& event, const Outcome& outcome);
void count_lost_event(uint64_t begin_ticks);

// Call before a thread takes slots: its writer may still point into the recording of the process
// that this one was forked from. False if nothing is recorded.
bool settle_writer_slowly();
inline bool settle_writer() {
  const uint32_t gate = recorder.gate.value();
  return __builtin_expect(gate == writer.gate && gate != 0, 1) || settle_writer_slowly();
}

// Records an event in one slot if everything fits, which is nearly always.
inline void record(const Event& event, const Outcome& outcome) {
  const uint64_t duration = outcome.end_ticks - outcome.begin_ticks;
  wire::ResultForm form = wire::ResultForm::kExtended;
  auto size = static_cast<uint32_t>(event.size);
  if (outcome.result == static_cast<int64_t>(event.size)) {
    form = wire::ResultForm::kSize;
  } else if (event.size == 0 && outcome.result > 0 && outcome.result <= UINT32_MAX) {
    form = wire::ResultForm::kInSize;
    size = static_cast<uint32_t>(outcome.result);
  } else if (outcome.result == 0) {
    form = wire::ResultForm::kZero;
  } else if (outcome.result > 0 && outcome.result == static_cast<int64_t>(event.offset)) {
    form = wire::ResultForm::kOffset;
  }
  const bool fits = form != wire::ResultForm::kExtended && outcome.error == 0 &&
                    (duration | event.size) <= UINT32_MAX && event.detail == 0 &&
                    event.other_file == kNoName && recorder.gate.value() == writer.gate;
  if (__builtin_expect(!fits, 0)) {
    record_wide(event, outcome);
    return;
  }
  ++writer.depth;
  wire::TraceSlot* slot = reserve(1);
  if (__builtin_expect(slot != nullptr, 1)) {
    wire::TraceRecord& r = slot->record;
    r.begin_ticks = outcome.begin_ticks;
    r.offset = event.offset;
    r.duration_ticks = static_cast<uint32_t>(duration);
    r.file = event.file;
    commit(r, size, event.call, 1, static_cast<uint8_t>(static_cast<uint8_t>(form) | event.flags));
  } else {
    count_lost_event(outcome.begin_ticks);
  }
  --writer.depth;
}

// A failed call returns a negative number or a null pointer, and sets errno.
template <typename Value>
int64_t result_number(Value value) {
  if constexpr (std::is_pointer_v<Value>) {
    return value == nullptr ? -1 : 0;
  } else {
    return static_cast<int64_t>(value);
  }
}

// Makes the call and records it as `event`.
template <typename Body>
auto traced(const Event& event, Body&& body) {
  const uint64_t begin = now();
  const auto value = body();
  const uint64_t end = now();
  const int64_t result = result_number(value);
  record(event, {begin, end, result, result < 0 ? errno : 0});
  return value;
}

// The number of a name. If there is no space for it, the loss is counted.
NameId intern(std::string_view name);

// A path relative to the working directory or to a directory's descriptor. Null is the directory.
NameId intern_path(const char* path);
NameId intern_path_at(int directory, const char* path);

// The same for a path that a program passed to a call, which has returned with `error` (0:
// success). Use it after the call. If the kernel could not read the path, we must not read it
// either: kNoName.
NameId intern_path_after(int error, int directory, const char* path);

// A text of the program that nothing has read yet. kNoName if it cannot be read.
NameId intern_unread_path_at(int directory, const char* path);
NameId intern_unread_text(const char* text);

// The working directory's name.
NameId working_directory_name();

// The directory has changed; ask the kernel when it is needed next.
void forget_working_directory();

// The file behind a descriptor; asks the kernel if it is not known yet. Null if memory is refused
// or the descriptor is not open.
hook::Description* describe(int fd);

// These keep the table of descriptors in step with the program's calls. A vfork child shares our
// memory but has its own descriptors, so its calls are not noted.
inline void note_opened(int fd, NameId file, uint32_t flags) {
  if (writer.in_vfork) return;
  if (recorder.names.filtered(file)) flags |= hook::kIgnored;
  recorder.descriptors.opened(fd, static_cast<uint32_t>(file), flags);
}
inline void note_duplicated(int from, int to) {
  if (!writer.in_vfork) recorder.descriptors.duplicated(from, to);
}
inline void note_closed(int fd) {
  if (!writer.in_vfork) recorder.descriptors.closed(fd);
}

// Whether the filters exclude this file.
inline bool ignored(const hook::Description* description) {
  return description != nullptr && description->ignored();
}
inline bool ignored(NameId name) { return recorder.names.filtered(name); }

inline NameId file_of(const hook::Description* description) {
  return description == nullptr ? kNoName
                                : NameId{description->file.load(std::memory_order_relaxed)};
}

// The process is about to exit, or to be replaced by another program.
void end_recording(int exit_code);

// The process is about to enter a sandbox that could kill it for a system call of ours. From now
// on, no thread and no forked child records, and we make no system calls. Pass the result to
// resume_recording() if the kernel refused the sandbox.
uint32_t stop_recording();
inline bool has_stopped() { return recorder.gate.value() == kStopped; }
void resume_recording(uint32_t gate);

// Records nothing until it is resumed. Descriptors are still followed, so that their names are
// known afterwards.
void pause_recording(bool paused);

// A vfork child begins, or has ended, on this thread.
void enter_vfork();
void leave_vfork();

// This process and thread: process << 32 | thread.
uint64_t ask_for_place();
inline uint64_t this_place() {
  settle_writer();
  return __builtin_expect(writer.place != 0, 1) ? writer.place : ask_for_place();
}

// Sets rank and world size; -1: unknown.
void set_rank(int rank, int world_size);

// The same from MPI, which does not always decide.
void set_rank_by_mpi(int rank, int world_size);

// The clock of rank 0's host: its monotonic time minus ours.
enum class PeerMoment : size_t { kInit = 0, kFinalize = 1 };
struct PeerClock {
  int64_t offset_ns;
  uint64_t uncertainty_ns;  // not 0
  uint64_t at_ns;           // our monotonic time of the measurement
};
void set_peer_clock(PeerMoment moment, const PeerClock& clock);

}  // namespace millrace::trace
