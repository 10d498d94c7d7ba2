#include "trace/preload/rings.h"

#include <errno.h>

#include <cstring>

#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/file_access.h"
#include "trace/preload/recorder.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

using wire::kRingSizeBytes;
using wire::kRingSlots;

struct Lost {
  uint64_t events = 0;
  uint64_t first_ticks = 0;
  uint64_t last_ticks = 0;
};

Lost events_of(const wire::Ring& ring) {
  Lost lost;
  for (const wire::TraceSlot& slot : ring.slots) {
    const auto call = static_cast<uint16_t>(slot.record.call);
    if (call == 0 || call >= 0xff00) continue;
    const uint64_t ticks = slot.record.begin_ticks;
    if (lost.events == 0 || ticks < lost.first_ticks) lost.first_ticks = ticks;
    if (ticks > lost.last_ticks) lost.last_ticks = ticks;
    ++lost.events;
  }
  return lost;
}

}  // namespace

void add_loss(wire::LossCounters& counters, uint64_t events, uint64_t first_ticks,
              uint64_t last_ticks, int error) {
  std::atomic_ref<uint64_t>(counters.events).fetch_add(events, std::memory_order_relaxed);
  uint64_t none = 0;
  std::atomic_ref<uint64_t>(counters.first_ticks).compare_exchange_strong(none, first_ticks);
  std::atomic_ref<uint64_t> last(counters.last_ticks);
  uint64_t before = last.load(std::memory_order_relaxed);
  while (before < last_ticks && !last.compare_exchange_weak(before, last_ticks)) {
  }
  uint32_t no_error = 0;
  std::atomic_ref<uint32_t>(counters.error)
      .compare_exchange_strong(no_error, static_cast<uint32_t>(error));
}

void Rings::write_path(const char* ending, PathText& out) const {
  Text text(out.text);
  text.add(directory_)
      .add(child_page_ == kNoChildPage ? "/" : "/areas-")
      .add(name_process_)
      .add("-");
  text.add(name_ticks_, 16);
  if (child_page_ != kNoChildPage) text.add("@").add(child_page_);
  text.add(ending);
}

wire::ProcessPage* Rings::create(const char* directory, uint32_t process, uint64_t ticks,
                                 int* error) {
  directory_ = directory;
  name_process_ = process;
  name_ticks_ = ticks;
  child_page_ = kNoChildPage;
  const hook::Scratch<PathText> path;
  *error = ENOMEM;
  if (!path) return nullptr;
  write_path(".rings", *path);
  void* memory = map_file({.path = path->text,
                           .offset = 0,
                           .size = wire::ring_offset(1),
                           .create = true,
                           .exclusive = true},
                          error);
  if (memory == nullptr) return nullptr;
  wire::ProcessPage* page = begin(memory, process);
  if (page == nullptr) *error = ENOMEM;
  return page;
}

wire::ProcessPage* Rings::adopt(const char* directory, uint32_t process,
                                const ChildPages::Page& given) {
  directory_ = directory;
  name_process_ = given.file_process;
  name_ticks_ = given.file_ticks;
  child_page_ = given.number;
  return begin(given.page, process);
}

wire::ProcessPage* Rings::begin(void* memory, uint32_t process) {
  Info* info = infos_.at(0);
  if (info == nullptr) return nullptr;
  page_ = static_cast<wire::ProcessPage*>(memory);
  page_->pid = process;
  info->ring = reinterpret_cast<wire::Ring*>(static_cast<char*>(memory) + wire::ring_offset(0));
  count_.store(1, std::memory_order_relaxed);
  page_->ring_count = 1;
  enter(writer, 0, info->ring->slots);
  return page_;
}

void Rings::forget() {
  // They stay mapped. If a signal handler forked in the middle of an event, the child will still
  // write that event here: into a slot that the parent fills with the same values.
  page_ = nullptr;
  count_.store(0, std::memory_order_relaxed);
  free_.clear();
  log_turn_.reset();
}

wire::Ring* Rings::map_ring(uint32_t number, int* error) {
  const hook::Scratch<PathText> path;
  *error = ENOMEM;
  if (!path) return nullptr;
  write_path(".rings", *path);
  // A child page has one ring. Further rings are in a file of their own, at their usual offsets.
  void* memory = map_file({.path = path->text,
                           .offset = wire::ring_offset(number),
                           .size = kRingSizeBytes,
                           .create = child_page_ != kNoChildPage},
                          error);
  if (memory == nullptr) return nullptr;
  return static_cast<wire::Ring*>(memory);
}

bool Rings::take(Writer& to, int* error) {
  if (page_ == nullptr) return false;
  if (const uint32_t entry = free_.pop(next_of())) {
    const Info* info = infos_.find(entry - 1);
    enter(to, entry - 1, info->next);
    return true;
  }
  const uint32_t number = count_.fetch_add(1, std::memory_order_relaxed);
  Info* info = infos_.at(number);
  if (info == nullptr) return false;
  info->ring = map_ring(number, error);
  if (info->ring == nullptr) return false;
  std::atomic_ref<uint32_t>(page_->ring_count).fetch_add(1, std::memory_order_relaxed);
  enter(to, number, info->ring->slots);
  return true;
}

void Rings::enter(Writer& to, uint32_t number, wire::TraceSlot* next) {
  wire::Ring* ring = infos_.find(number)->ring;
  if (to.thread == 0) to.thread = hook::sys_gettid();
  const bool fresh = ring->header.magic != wire::kRingMagic;
  if (fresh) {
    ring->header.ring = number;
    ring->header.process = page_->pid;
    ring->header.thread = to.thread;
    ring->header.slot_count = kRingSlots;
    to.context_process = page_->pid;
    to.context_thread = to.thread;
  } else {
    to.context_process = 0;  // the next event states its owner
    to.context_thread = 0;
  }
  ring->header.in_use = 1;
  std::atomic_ref<uint32_t>(ring->header.magic).store(wire::kRingMagic, std::memory_order_release);
  to.ring = ring;
  to.ring_number = number;
  to.limit = ring->slots + kRingSlots;
  to.next = next;
  to.end = fresh ? to.limit : nullptr;
}

void Rings::leave(Writer& from) {
  if (from.ring == nullptr) return;
  Info* info = infos_.find(from.ring_number);
  info->next = from.next < from.limit ? from.next : from.limit;
  from.ring->header.in_use = 0;
  from.ring = nullptr;
  from.next = from.end = from.limit = nullptr;
  free_.push(from.ring_number + 1, next_of());
}

void Rings::write_out(Writer& of) {
  wire::Ring& ring = *of.ring;
  // All slots: unused slots at the end are empty, and readers skip them.
  int error = ENOMEM;
  if (const hook::Scratch<PathText> path; path) {
    write_path(".log", *path);
    error = append_file(path->text, &ring, sizeof(ring), log_turn_, of.thread);
  }
  if (error != 0) {
    const Lost lost = events_of(ring);
    add_loss(page_->lost, lost.events, lost.first_ticks, lost.last_ticks, error);
  }
  page_->last = sample_clocks(recorder.ticks_from_cpu);
  // The order matters: until the sequence changes, a reader takes these events from the log.
  std::memset(static_cast<void*>(ring.slots), 0, sizeof(ring.slots));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ring.header.process = of.context_process;
  ring.header.thread = of.context_thread;
  std::atomic_ref<uint64_t>(ring.header.sequence).fetch_add(1, std::memory_order_release);
  of.next = ring.slots;
  of.end = of.limit;
}

}  // namespace millrace::trace
