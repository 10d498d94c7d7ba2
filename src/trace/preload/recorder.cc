#include "trace/preload/recorder.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "hook/environment.h"
#include "hook/say.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/file_access.h"
#include "trace/preload/hooks/hooks.h"
#include "trace/preload/mappings.h"
#include "trace/preload/rings.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"
#include "trace/preload/uring.h"

namespace millrace::trace {

constinit Recorder recorder;
thread_local constinit Writer writer{};

namespace {

enum class Phase : int { kNew, kStarting, kReady, kOff };

// State that survives a fork: the child starts its own recording from it.
struct Process {
  std::atomic<Phase> phase{Phase::kNew};
  wire::SessionPage* session = nullptr;
  pthread_key_t thread_end_key = 0;
  uint32_t pid = 0;
  std::atomic<uint32_t> lost_since_retry{0};
  std::atomic<int> last_error{0};  // why the last ring could not be created
  wire::ProcessOrigin origin = wire::ProcessOrigin::kProgram;
  uint32_t generation = 0;  // forks between the first traced program and this process
  RankInfo rank;
  NameId executable = kNoName;
  NameId command_line = kNoName;
};

// On pages of its own: the only ones that a forked child copies to start its recording.
struct alignas(4096) State {
  Process process;
  ChildPages child_pages;
  Rings rings;
};
constinit State state;
constexpr ChildPages& child_pages = state.child_pages;
constexpr Process& process = state.process;
constexpr Rings& rings = state.rings;

thread_local constinit bool starting = false;

// The start time of this process, field 22 of /proc/self/stat.
uint64_t start_time_of_self() {
  char text[512];  // 22 numbers and a name of 15 bytes
  const long size = read_start("/proc/self/stat", text, sizeof(text) - 1);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* at = std::strrchr(text, ')');  // the command before it may contain anything
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  uint64_t value = 0;
  for (at = at == nullptr ? "" : at + 1; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + static_cast<uint64_t>(*at - '0');
  }
  return value;
}

void name_program() {
  const hook::Scratch<hook::ScratchText> scratch;
  if (!scratch) return;
  char* text = scratch->text;
  const long size = hook::sys_readlink("/proc/self/exe", text, sizeof(scratch->text));
  if (size > 0) process.executable = intern({text, static_cast<size_t>(size)});
  long count = read_start("/proc/self/cmdline", text, 4000);
  if (count <= 0) return;
  if (text[count - 1] == '\0') --count;
  for (long i = 0; i < count; ++i) {
    if (text[i] == '\0') text[i] = ' ';
  }
  process.command_line = intern({text, static_cast<size_t>(count)});
}

void fill_page(wire::ProcessPage& page, uint64_t ticks) {
  page.version = wire::kRecordingVersion;
  page.parent_pid = hook::sys_getppid();
  page.origin = process.origin;
  page.rank = process.rank.rank;
  page.world_size = process.rank.world_size;
  page.rank_origin = process.rank.origin;
  page.start_ticks = ticks;
  page.first = sample_clocks(recorder.ticks_from_cpu);
  page.executable = process.executable;
  page.command_line = process.command_line;
  page.working_directory = working_directory_name();
  page.start_time = start_time_of_self();
  std::atomic_ref<uint64_t>(page.magic).store(wire::kProcessMagic, std::memory_order_release);
}

// Creates the files of this process. If that fails, returns false; its events are lost, and
// counted.
bool make_files() {
  const uint64_t ticks = now();
  int error = 0;
  ChildPages::Page prepared;
  wire::ProcessPage* page =
      process.origin == wire::ProcessOrigin::kFork && child_pages.take(&prepared)
          ? rings.adopt(recorder.settings.session, process.pid, prepared)
          : rings.create(recorder.settings.session, process.pid, ticks, &error);
  if (page == nullptr) {
    process.last_error.store(error, std::memory_order_relaxed);
    return false;
  }
  fill_page(*page, ticks);
  return true;
}

constexpr uint32_t kGenerationShift = 8;

// The gate of a paused process: the same number, no levels.
uint32_t without_levels(uint32_t gate) {
  return (gate >> kGenerationShift << kGenerationShift) | kReady;
}

void start_process(wire::ProcessOrigin origin) {
  rings.forget();
  writer = Writer{};
  process.pid = hook::sys_getpid();
  process.origin = origin;
  if (origin == wire::ProcessOrigin::kProgram) name_program();
  if (!make_files()) {
    std::atomic_ref<uint64_t>(process.session->lost_processes).fetch_add(1);
  }
  writer.gate = recorder.settings.levels | kReady | ++process.generation << kGenerationShift;
  recorder.gate.set(recorder.paused ? without_levels(writer.gate) : writer.gate);
  if (!recording(Level::kPosix)) return;
  const uint64_t at = now();
  record({.call = Call::kStart, .file = process.executable}, {at, at, 0});
}

void on_thread_end(void*) {
  const hook::SignalsBlocked blocked;
  const uint32_t gate = recorder.gate.value();
  if (gate != 0 && without_levels(gate) == without_levels(writer.gate)) rings.leave(writer);
}

void on_exit_of_program(int code, void*) { end_recording(code); }

// Runs in the parent before a fork.
void on_fork() {
  recorder.descriptors.shared_with_child();
  if ((recorder.gate.value() & kReady) != 0) {
    const hook::SignalsBlocked blocked;
    child_pages.prepare(recorder.settings.session, process.pid, now(), rings.page());
  }
  find_data_calls();
  find_open_calls();
  find_exit_call();
}

void on_fork_in_child() {
  recorder.gate.set(0);
  // A thread that does not exist here was just starting to record.
  if (process.session != nullptr && process.phase == Phase::kStarting) {
    process.phase = Phase::kReady;
  }
}

struct Warning {
  char text[4500];
};

// Writes one line, once: a program that should be traced but is not must not go unnoticed. Does not
// use stdio.
void warn(const char* what, int error) {
  const char* reason = strerrordesc_np(error);
  const hook::Scratch<Warning> warning;
  if (!warning) return;
  const size_t size = Text(warning->text)
                          .add("millrace: cannot record into ")
                          .add(recorder.settings.session[0] != '\0' ? recorder.settings.session
                                                                    : recorder.settings.directory)
                          .add(": ")
                          .add(what)
                          .add(": ")
                          .add(reason == nullptr ? "unknown error" : reason)
                          .add(error == EFBIG ? " (ulimit -f limits the size of files)" : "")
                          .add("; the program runs without being traced\n")
                          .size();
  hook::say(warning->text, size);
}

bool initialise() {
  read_settings(environ, recorder.settings);
  if (!recorder.settings.wanted) return false;
  recorder.paused = recorder.settings.paused;
  int error = 0;
  process.session = attach_session(recorder.settings, &error);
  if (process.session == nullptr) {
    warn("cannot create or open the session", error);
    return false;
  }
  recorder.ticks_from_cpu = process.session->counter != wire::CounterSource::kMonotonicClock;
  const auto filtered = [](std::string_view name) {
    // Filters apply to paths and to objects without one (<pipe>), not to names of regions.
    return (name.starts_with('/') || name.starts_with('<')) && is_filtered(recorder.settings, name);
  };
  const bool any = recorder.settings.include[0] != '\0' || recorder.settings.exclude[0] != '\0';
  if (!recorder.names.open(recorder.settings.session,
                           any ? static_cast<NameTable::Filter>(filtered) : nullptr, &error)) {
    warn("cannot create the table of names", error);
    return false;
  }
  process.rank = read_rank(environ);
  if (kept_environment.remember_own_library("MILLRACE_TRACE", "MILLRACE_TRACE_")) {
    kept_environment.add("MILLRACE_TRACE_SESSION", recorder.settings.session);
  }
  recorder.gate.install();
  pthread_key_create(&process.thread_end_key, &on_thread_end);
  pthread_atfork(&on_fork, nullptr, &on_fork_in_child);
  on_exit(&on_exit_of_program, nullptr);
  return true;
}

}  // namespace

uint32_t begin_recording() {
  if (starting) return 0;
  Phase phase = process.phase.load(std::memory_order_acquire);
  if (phase == Phase::kOff) return 0;
  const int saved_errno = errno;
  const hook::SignalsBlocked blocked;
  if (phase == Phase::kNew && process.phase.compare_exchange_strong(phase, Phase::kStarting)) {
    starting = true;
    const bool on = initialise();
    if (on) start_process(wire::ProcessOrigin::kProgram);
    starting = false;
    process.phase.store(on ? Phase::kReady : Phase::kOff, std::memory_order_release);
  } else if (phase == Phase::kReady &&
             process.phase.compare_exchange_strong(phase, Phase::kStarting)) {
    // A forked child. Another of its threads may have been here first.
    starting = true;
    if (recorder.gate.value() == 0) start_process(wire::ProcessOrigin::kFork);
    starting = false;
    process.phase.store(Phase::kReady, std::memory_order_release);
  } else {
    while (process.phase.load(std::memory_order_acquire) == Phase::kStarting) hook::sys_yield();
  }
  errno = saved_errno;
  return recorder.gate.value();
}

namespace {

// The process and thread that the next events of a ring belong to.
struct Owner {
  uint32_t process;
  uint32_t thread;
};

Owner current_owner(const Writer& w) {
  if (!w.in_vfork) return {process.pid, w.thread};
  const uint32_t child = hook::sys_getpid();
  return {child, child};
}

// Makes room for `count` slots. A signal handler may have interrupted an event, whose slot must
// stay: then the handler continues in another ring, and the full one stays in the .rings file.
bool make_room(Writer& w, uint32_t count, int* error) {
  if (w.ring != nullptr && w.next + count <= w.limit) return true;
  if (w.ring != nullptr && w.depth <= 1) {
    rings.write_out(w);
    return true;
  }
  if (!rings.take(w, error)) return false;
  pthread_setspecific(process.thread_end_key, &writer);
  if (w.next + count > w.limit) rings.write_out(w);  // left full by another thread
  return true;
}

wire::TraceSlot* take_slots_blocked(Writer& w, uint32_t count) {
  if (w.end == nullptr) w.next -= count;
  int error = 0;
  if (!make_room(w, count + 1, &error)) {
    // Without files nothing was tried, and the reason is already known.
    if (error != 0) process.last_error.store(error, std::memory_order_relaxed);
    return nullptr;
  }
  const Owner owner = current_owner(w);
  if (owner.process != w.context_process || owner.thread != w.context_thread) {
    wire::TraceContext& context = (w.next++)->context;
    context.ticks = now();
    context.process = owner.process;
    context.thread = owner.thread;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    context.tag = wire::SlotTag::kContext;
    w.context_process = owner.process;
    w.context_thread = owner.thread;
  }
  w.end = w.in_vfork ? nullptr : w.limit;
  wire::TraceSlot* slot = w.next;
  w.next += count;
  return slot;
}

}  // namespace

wire::TraceSlot* take_slots_slow(uint32_t count) {
  const int saved_errno = errno;
  const hook::SignalsBlocked blocked;
  wire::TraceSlot* slot = take_slots_blocked(writer, count);
  errno = saved_errno;
  return slot;
}

namespace {

// Whether an event needs a TraceWide slot.
bool needs_wide(const Event& event, const Outcome& outcome, uint64_t duration) {
  return outcome.error != 0 || (duration | event.size) > UINT32_MAX || event.detail != 0 ||
         outcome.result < 0 ||
         (outcome.result != 0 && outcome.result != static_cast<int64_t>(event.size));
}

}  // namespace

bool settle_writer_slowly() {
  uint32_t gate = recorder.gate.value();
  if (gate == 0) gate = begin_recording();
  if ((gate & kReady) == 0) return false;
  // A call that began before a pause may end in it: the writer stays that of the same process.
  if (without_levels(writer.gate) != without_levels(gate)) writer = Writer{};
  writer.gate = gate;
  return true;
}

wire::TraceSlot* record_wide(const Event& event, const Outcome& outcome) {
  if (!settle_writer()) return nullptr;
  const uint64_t duration = outcome.end_ticks - outcome.begin_ticks;
  const bool wide = needs_wide(event, outcome, duration);
  const bool two_files = event.other_file != kNoName;
  const auto slots = static_cast<uint8_t>(1 + (wide ? 1 : 0) + (two_files ? 1 : 0));
  ++writer.depth;
  wire::TraceSlot* slot = reserve(slots);
  if (slot == nullptr) {
    --writer.depth;
    count_lost_event(outcome.begin_ticks);
    return nullptr;
  }
  wire::TraceSlot* const first = slot;
  wire::TraceRecord& r = slot->record;
  r.begin_ticks = outcome.begin_ticks;
  r.offset = event.offset;
  r.duration_ticks = static_cast<uint32_t>(duration);
  r.file = event.file;
  auto form = wire::ResultForm::kExtended;
  if (wide) {
    (++slot)->wide = {.result = outcome.result,
                      .size = event.size,
                      .duration_high = static_cast<uint32_t>(duration >> 32),
                      .detail = event.detail,
                      .reserved = 0,
                      .tag = wire::SlotTag::kWide,
                      .error = static_cast<uint16_t>(outcome.error)};
  } else {
    form = outcome.result == static_cast<int64_t>(event.size) ? wire::ResultForm::kSize
                                                              : wire::ResultForm::kZero;
  }
  if (two_files) {
    (++slot)->other = {
        .offset = event.other_offset, .file = event.other_file, .tag = wire::SlotTag::kOther};
  }
  commit(r, static_cast<uint32_t>(event.size), event.call, slots,
         static_cast<uint8_t>(static_cast<uint8_t>(form) | event.flags));
  --writer.depth;
  return first;
}

void count_lost_event(uint64_t begin_ticks) {
  const int error = process.last_error.load(std::memory_order_relaxed);
  if (wire::ProcessPage* page = rings.page()) {
    add_loss(page->lost, 1, begin_ticks, begin_ticks, error);
    return;
  }
  add_loss(process.session->lost, 1, begin_ticks, begin_ticks, error);
  // Space may be available again. Trying at every event would slow the program down for nothing.
  if (process.lost_since_retry.fetch_add(1, std::memory_order_relaxed) % 4096 == 4095) {
    const hook::SignalsBlocked blocked;
    make_files();
  }
}

NameId intern(std::string_view name) {
  const int saved_errno = errno;
  const NameId id = recorder.names.intern(name);
  errno = saved_errno;
  if (id == kNoName && !name.empty()) {
    wire::LossCounters& lost = rings.page() != nullptr ? rings.page()->lost : process.session->lost;
    std::atomic_ref<uint32_t>(lost.names).fetch_add(1, std::memory_order_relaxed);
  }
  return id;
}

namespace {

// Records what is known only when a recording ends.
void record_open_resources() {
  if (!recording(Level::kPosix)) return;
  record_live_mappings();
  record_found_rings();
}

void close_page(wire::ProcessPage& page) {
  rusage usage{};
  hook::own_call(SYS_getrusage, RUSAGE_SELF, hook::word(&usage));
  page.major_faults = static_cast<uint64_t>(usage.ru_majflt);
  page.minor_faults = static_cast<uint64_t>(usage.ru_minflt);
  page.last = sample_clocks(recorder.ticks_from_cpu);
}

}  // namespace

void end_recording(int exit_code) {
  if (recorder.gate.value() == 0) return;  // nothing was recorded
  if (recording(Level::kPosix)) {
    if (!writer.in_vfork) record_open_resources();
    const uint64_t at = now();
    record({.call = Call::kExit}, {at, at, exit_code});
  }
  wire::ProcessPage* page = rings.page();
  if (page == nullptr || writer.in_vfork) return;  // a vfork child exits, not this process
  if (!has_stopped()) close_page(*page);
  page->exit_code = exit_code;
  std::atomic_ref<uint32_t>(page->exited).store(1, std::memory_order_release);
}

uint32_t stop_recording() {
  const uint32_t gate = recorder.gate.value();
  if (wire::ProcessPage* page = rings.page()) close_page(*page);
  process.phase.store(Phase::kOff, std::memory_order_release);  // for children, whose gate begins
                                                                // as 0
  recorder.gate.set(kStopped);
  hook::switch_own_calls_off();
  return gate;
}

void resume_recording(uint32_t gate) {
  hook::switch_own_calls_on();
  process.phase.store(Phase::kReady, std::memory_order_release);
  recorder.gate.set(gate);
}

void pause_recording(bool paused) {
  uint32_t gate = recorder.gate.value();
  if (gate == 0) gate = begin_recording();
  recorder.paused = paused;
  if ((gate & kReady) == 0 || has_stopped()) return;
  recorder.gate.set(without_levels(gate) | (paused ? 0 : recorder.settings.levels));
}

void enter_vfork() {
  this_place();  // the thread's number: in the child, the kernel would return the child's
  writer.in_vfork = true;
  writer.end = nullptr;
}

void leave_vfork() {
  writer.in_vfork = false;
  writer.end = nullptr;  // the next event states its owner again
  rings.child_is_gone(writer);
  forget_working_directory();
}

uint64_t ask_for_place() {
  if (writer.thread == 0) writer.thread = hook::sys_gettid();
  return writer.place = uint64_t{process.pid} << 32 | writer.thread;
}

void set_rank(int rank, int world_size) {
  RankInfo& known = process.rank;
  const bool is_news =
      rank != known.rank || (known.world_size >= 0 && world_size != known.world_size);
  if (known.origin.told_by != wire::RankTeller::kProgram) {
    // Processes of one task that set their own ranks, as torch.multiprocessing's do: the launcher's
    // task consists of several ranks.
    if (known.rank >= 0 && is_news) {
      known.origin.outer_by = known.origin.told_by;
      known.origin.outer_rank = known.rank;
    }
    known.origin.told_by = wire::RankTeller::kProgram;
  }
  known.rank = rank;
  known.world_size = world_size;
  if (wire::ProcessPage* page = rings.page()) {
    page->rank = rank;
    page->world_size = world_size;
    page->rank_origin = known.origin;
  }
}

void set_rank_by_mpi(int rank, int world_size) {
  const RankInfo& known = process.rank;
  // Inside mpirun or srun, MPI numbers the tasks of that launcher, and torchrun's ranks are inside
  // them.
  if (known.origin.told_by == wire::RankTeller::kTorchrun) return;
  // An MPI that found no other ranks knows less than the launcher.
  if (world_size == 1 && known.rank >= 0) return;
  set_rank(rank, world_size);
}

void set_peer_clock(PeerMoment moment, const PeerClock& clock) {
  wire::ProcessPage* page = rings.page();
  if (page == nullptr) return;
  const auto index = static_cast<size_t>(moment);
  page->peer_offset_ns[index] = clock.offset_ns;
  page->peer_at_ns[index] = clock.at_ns;
  page->peer_uncertainty_ns[index] = clock.uncertainty_ns;
}

}  // namespace millrace::trace

namespace {

// Records the program's start even if it makes no hooked call.
[[gnu::constructor]] void start_of_library() { static_cast<void>(millrace::trace::tracking()); }

}  // namespace
