#include "interop/import_columns.h"

#include <algorithm>

namespace millrace::interop {
namespace {

constexpr size_t kBlockEvents = 65536;
constexpr size_t kHeldEventsMax = 1'000'000;  // about 100 MB

void append_tags(trace::EventColumns& columns, std::span<const trace::RegionTag> tags) {
  if (tags.empty() && columns.tag_begin.empty()) return;
  // From the first event with tags on, every event has an entry in tag_begin.
  if (columns.tag_begin.empty()) columns.tag_begin.assign(columns.size_events(), 0);
  columns.tags.insert(columns.tags.end(), tags.begin(), tags.end());
  columns.tag_begin.push_back(static_cast<uint32_t>(columns.tags.size()));
}

}  // namespace

void append_event(trace::EventColumns& columns, const Event& event, trace::ThreadIndex thread) {
  columns.begin_ns.push_back(event.begin_ns);
  columns.duration_ns.push_back(event.duration_ns());
  columns.call.push_back(event.call);
  columns.file.push_back(event.file);
  columns.offset.push_back(event.offset);
  columns.size.push_back(event.size);
  columns.result.push_back(event.result);
  columns.error.push_back(event.error);
  columns.thread.push_back(thread);
  columns.detail.push_back(event.detail);
  columns.other_file.push_back(event.other_file);
  columns.other_offset.push_back(event.other_offset);
  columns.flags.push_back(event.flags);
  append_tags(columns, event.tags);
}

size_t ImportColumns::add_process() {
  processes_.push_back(std::make_unique<HeldProcess>());
  return processes_.size() - 1;
}

uint32_t ImportColumns::thread_number(HeldProcess& held, uint32_t tid) {
  if (held.last_number != ~0u && held.last_tid == tid) return held.last_number;
  const auto [found, added] =
      held.thread_numbers.emplace(tid, static_cast<uint32_t>(held.tids.size()));
  if (added) held.tids.push_back(tid);
  held.last_tid = tid;
  held.last_number = found->second;
  return found->second;
}

Status ImportColumns::add(size_t process, uint32_t tid, const Event& event) {
  HeldProcess& held = *processes_[process];
  held.process.end_ns = std::max(held.process.end_ns, event.end_ns);
  append_event(held.columns, event, static_cast<trace::ThreadIndex>(thread_number(held, tid)));
  ++held_events_;
  if (held.columns.size_events() >= kBlockEvents) return write(process);
  if (held_events_ < kHeldEventsMax) return {};
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i]->columns.size_events() == 0) continue;
    RETURN_IF_ERROR(write(i));
    processes_[i]->columns = {};  // frees the memory
  }
  return {};
}

Status ImportColumns::write(size_t index) {
  HeldProcess& held = *processes_[index];
  if (!held.added) {
    complete_(index, held.process);
    held.index = writer_.add_process(held.process);
    held.added = true;
  }
  while (held.threads.size() < held.tids.size()) {
    held.threads.push_back(
        writer_.add_thread({.process = held.index, .tid = held.tids[held.threads.size()]}));
  }
  for (trace::ThreadIndex& thread : held.columns.thread) {
    thread = held.threads[static_cast<size_t>(thread)];
  }
  if (held.columns.size_events() == 0) return {};
  RETURN_IF_ERROR(writer_.append(held.columns));
  held_events_ -= held.columns.size_events();
  clear(held.columns);
  return {};
}

Status ImportColumns::flush() {
  for (size_t i = 0; i < processes_.size(); ++i) RETURN_IF_ERROR(write(i));
  return {};
}

}  // namespace millrace::interop
