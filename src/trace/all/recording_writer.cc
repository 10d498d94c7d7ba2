#include "trace/all/recording_writer.h"

#include <errno.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "trace/preload/file_access.h"
#include "trace/preload/session.h"
#include "trace/preload/writer.h"

namespace millrace::trace {
namespace {

using wire::kRingSlots;

constexpr int kNameAttempts = 16;

// The library in other processes updates the session's counters too.
void add_loss(wire::LossCounters& counters, uint64_t begin_ticks, int error) {
  std::atomic_ref<uint64_t>(counters.events).fetch_add(1, std::memory_order_relaxed);
  uint64_t none = 0;
  std::atomic_ref<uint64_t>(counters.first_ticks).compare_exchange_strong(none, begin_ticks);
  std::atomic_ref<uint64_t> last(counters.last_ticks);
  uint64_t before = last.load(std::memory_order_relaxed);
  while (before < begin_ticks && !last.compare_exchange_weak(before, begin_ticks)) {
  }
  uint32_t no_error = 0;
  std::atomic_ref<uint32_t>(counters.error)
      .compare_exchange_strong(no_error, static_cast<uint32_t>(error));
}

void fill_page(wire::ProcessPage& page, const ProcessImage& image) {
  page.version = wire::kRecordingVersion;
  page.pid = image.pid;
  page.parent_pid = image.parent_pid;
  page.origin = image.origin;
  page.rank = image.rank;
  page.world_size = image.world_size;
  page.rank_origin = image.rank_origin;
  page.start_ticks = image.start_ticks;
  page.ring_count = 1;
  page.executable = image.executable;
  page.command_line = image.command_line;
  page.working_directory = image.working_directory;
  page.start_time = image.start_time;
  page.recorded_from = image.recorded_from;
}

// How the result fits into one slot; kExtended if it does not.
wire::ResultForm form_of(const RecordedCall& call) {
  if (call.result == static_cast<int64_t>(call.size)) return wire::ResultForm::kSize;
  if (call.size == 0 && call.result > 0 && call.result <= UINT32_MAX) {
    return wire::ResultForm::kInSize;
  }
  if (call.result == 0) return wire::ResultForm::kZero;
  if (call.result == static_cast<int64_t>(call.offset)) return wire::ResultForm::kOffset;
  return wire::ResultForm::kExtended;
}

}  // namespace

RecordingWriter::RecordingWriter(wire::SessionPage* session, const std::string& directory,
                                 const ProcessImage& image)
    : session_(session) {
  void* memory = nullptr;
  // The library in the same process also names its files by PID and ticks: try the next tick.
  for (uint64_t attempt = 0; attempt < kNameAttempts && memory == nullptr; ++attempt) {
    const std::string stem =
        fmt::format("{}/{}-{:x}", directory, image.pid, image.start_ticks + attempt);
    const std::string rings_path = stem + ".rings";
    log_path_ = stem + ".log";
    memory = map_file({.path = rings_path.c_str(),
                       .offset = 0,
                       .size = wire::ring_offset(1),
                       .create = true,
                       .exclusive = true},
                      &error_);
    if (error_ != EEXIST) break;
  }
  if (memory == nullptr) {
    std::atomic_ref<uint64_t>(session_->lost_processes).fetch_add(1);
    return;
  }
  page_ = static_cast<wire::ProcessPage*>(memory);
  ring_ = reinterpret_cast<wire::Ring*>(static_cast<char*>(memory) + wire::ring_offset(0));
  fill_page(*page_, image);
  page_->first = sample();
  page_->last = page_->first;
  ring_->header.process = image.pid;
  ring_->header.thread = image.pid;
  ring_->header.slot_count = kRingSlots;
  ring_->header.in_use = 1;
  context_thread_ = image.pid;
  std::atomic_ref<uint32_t>(ring_->header.magic).store(wire::kRingMagic, std::memory_order_release);
  std::atomic_ref<uint64_t>(page_->magic).store(wire::kProcessMagic, std::memory_order_release);
}

RecordingWriter::~RecordingWriter() {
  if (page_ != nullptr) munmap(page_, wire::ring_offset(1));
}

wire::ClockSample RecordingWriter::sample() const {
  return sample_clocks(session_->counter != wire::CounterSource::kMonotonicClock);
}

void RecordingWriter::count_lost_event(uint64_t begin_ticks, int error) {
  add_loss(lost(), begin_ticks, error);
}

void RecordingWriter::count_lost_name() {
  std::atomic_ref<uint32_t>(lost().names).fetch_add(1, std::memory_order_relaxed);
}

void RecordingWriter::write_out() {
  Turn turn;  // nobody else appends to this log
  const int error = append_file(log_path_.c_str(), ring_, sizeof(*ring_), turn, 1);
  if (error != 0) {
    for (const wire::TraceSlot& slot : ring_->slots) {
      const auto call = static_cast<uint16_t>(slot.record.call);
      if (call != 0 && call < 0xff00) count_lost_event(slot.record.begin_ticks, error);
    }
  }
  page_->last = sample();
  // The order matters: until the sequence changes, a reader takes these events from the log.
  std::memset(static_cast<void*>(ring_->slots), 0, sizeof(ring_->slots));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ring_->header.thread = context_thread_;
  std::atomic_ref<uint64_t>(ring_->header.sequence).fetch_add(1, std::memory_order_release);
  next_ = 0;
}

wire::TraceSlot* RecordingWriter::reserve(uint32_t thread, uint32_t slots) {
  if (next_ + slots + 1 > kRingSlots) write_out();
  if (thread != context_thread_) {
    wire::TraceContext& context = ring_->slots[next_++].context;
    context.ticks = 0;
    context.process = page_->pid;
    context.thread = thread;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    context.tag = wire::SlotTag::kContext;
    context_thread_ = thread;
  }
  wire::TraceSlot* slot = &ring_->slots[next_];
  next_ += slots;
  return slot;
}

void RecordingWriter::record(uint32_t thread, const RecordedCall& call) {
  if (page_ == nullptr) return count_lost_event(call.begin_ticks, error_);
  const uint64_t duration = call.end_ticks - call.begin_ticks;
  wire::ResultForm form = form_of(call);
  const bool wide = form == wire::ResultForm::kExtended || call.error != 0 || call.detail != 0 ||
                    (duration | call.size) > UINT32_MAX;
  const bool two_files = call.other_file != wire::kNoName;
  const auto slots = static_cast<uint8_t>(1 + (wide ? 1 : 0) + (two_files ? 1 : 0));
  wire::TraceSlot* slot = reserve(thread, slots);
  wire::TraceRecord& record = slot->record;
  record.begin_ticks = call.begin_ticks;
  record.offset = call.offset;
  record.duration_ticks = static_cast<uint32_t>(duration);
  record.file = call.file;
  auto size = static_cast<uint32_t>(call.size);
  if (wide) {
    form = wire::ResultForm::kExtended;
    (++slot)->wide = {.result = call.result,
                      .size = call.size,
                      .duration_high = static_cast<uint32_t>(duration >> 32),
                      .detail = call.detail,
                      .reserved = 0,
                      .tag = wire::SlotTag::kWide,
                      .error = call.error};
  } else if (form == wire::ResultForm::kInSize) {
    size = static_cast<uint32_t>(call.result);
  }
  if (two_files) {
    (++slot)->other = {
        .offset = call.other_offset, .file = call.other_file, .tag = wire::SlotTag::kOther};
  }
  commit(record, size, call.call, slots,
         static_cast<uint8_t>(static_cast<uint8_t>(form) | call.flags));
}

void RecordingWriter::end(const ProcessEnd& end) {
  if (page_ == nullptr) return;
  page_->major_faults = end.major_faults;
  page_->minor_faults = end.minor_faults;
  page_->exit_code = end.code;
  page_->last = sample();
  ring_->header.in_use = 0;
  std::atomic_ref<uint32_t>(page_->exited).store(end.exited, std::memory_order_release);
}

}  // namespace millrace::trace
