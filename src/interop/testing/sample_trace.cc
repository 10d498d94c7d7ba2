#include "interop/testing/sample_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "interop/describe.h"
#include "interop/encode_text.h"
#include "interop/selection.h"

namespace millrace::interop {
namespace {

using trace::NameIndex;

std::string hex(std::string_view bytes) {
  std::string digits;
  append_hex_bytes(digits, bytes);
  return digits;
}

std::string describe_tags(const trace::Trace& trace, const Event& event) {
  std::string text;
  for (const trace::RegionTag& tag : event.tags) {
    text += fmt::format(" {}:{}:", hex(trace.name(tag.key)), static_cast<int>(tag.kind));
    text += tag.kind == wire::TagKind::kText ? hex(trace.name(static_cast<NameIndex>(tag.value)))
                                             : std::to_string(tag.value);
  }
  return text;
}

std::vector<wire::Call> every_call() {
  std::vector<wire::Call> calls;
  for (uint32_t number = 0x100; number < 0x600; ++number) {
    const auto call = static_cast<wire::Call>(number);
    if (wire::call_info(call) != nullptr) calls.push_back(call);
  }
  calls.push_back(static_cast<wire::Call>(0x1fe));  // from a later version
  calls.push_back(static_cast<wire::Call>(0x6fe));
  return calls;
}

std::vector<NameIndex> strange_names(trace::TraceWriter& writer) {
  std::vector<NameIndex> names = {NameIndex{}};
  for (const std::string_view name :
       {"/dataset/train/0001.npz", "/dataset/\xc3\xa9t\xc3\xa9/\xf0\x9f\x90\x8e.jpg",
        "a \"quoted\" name", "two\nlines\tand\\slash", "not\xff\xfeutf8", "\xc3", "fetch",
        "compute", "comma, and ;semicolon", "\x01\x7f", "read"}) {
    names.push_back(writer.add_name(name));
  }
  return names;
}

std::vector<trace::RegionTag> random_tags(Random& random, trace::TraceWriter& writer,
                                          const std::vector<NameIndex>& names) {
  static constexpr std::string_view kKeys[] = {"batch", "cat",   "loss", "ns",
                                               "size",  "k\xff", "a b"};
  static constexpr double kNumbers[] = {0.0, -0.0, 1.0, 0.1, 1e300, -2.5e-300};
  std::vector<trace::RegionTag> tags;
  for (uint64_t left = random.below(5) / 2; left > 0; --left) {
    trace::RegionTag tag;
    tag.key = writer.add_name(kKeys[random.below(std::size(kKeys))]);
    tag.kind = static_cast<wire::TagKind>(1 + random.below(3));
    if (tag.kind == wire::TagKind::kInteger) tag.value = random.next() >> random.below(64);
    if (tag.kind == wire::TagKind::kNumber) {
      tag.value = random.below(8) == 0 ? 0x7ff8000000000000u  // NaN
                                       : std::bit_cast<uint64_t>(kNumbers[random.below(6)]);
    }
    if (tag.kind == wire::TagKind::kText) {
      tag.value = static_cast<uint64_t>(names[1 + random.below(names.size() - 1)]);
    }
    tags.push_back(tag);
  }
  return tags;
}

Event random_call(Random& random, wire::Call call, const std::vector<NameIndex>& names) {
  const auto wide = [&] { return random.next() >> random.below(64); };
  Event event;
  event.call = call;
  event.file = names[random.below(names.size())];
  if (event.is_region()) {
    event.size = random.below(2) == 0 ? wire::kNoEpoch : random.below(1000);
    event.offset = random.below(2) == 0 ? wire::kNoStep : random.below(1'000'000);
    return event;
  }
  event.offset = random.below(3) == 0 ? wire::kNoOffset : wide();
  event.size = random.below(3) == 0 ? 0 : wide();
  event.result = static_cast<int64_t>(wide()) - 1;
  if (random.below(8) == 0) event.error = static_cast<uint16_t>(random.below(140));
  if (random.below(4) == 0) event.detail = static_cast<uint32_t>(random.next());
  if (random.below(8) == 0) {
    event.other_file = names[random.below(names.size())];
    event.other_offset = wide();
  }
  if (random.below(8) == 0) event.flags = wire::kFlagEstimate;
  return event;
}

}  // namespace

std::vector<std::string> all_events(const trace::Trace& trace) {
  std::vector<std::string> lines;
  const Status visited = visit_events(trace, {}, [&](const Event& event) -> Status {
    const trace::Process* process = process_of(trace, event.thread);
    lines.push_back(fmt::format(
        "{} {} {:#x} {} {} {} {} {} {} {} {} {} pid {} tid {} rank {} host {} of {}{}",
        trace.origin_wall_ns() + static_cast<int64_t>(event.begin_ns), event.duration_ns(),
        static_cast<uint16_t>(event.call), hex(trace.name(event.file)), event.offset, event.size,
        event.result, event.error, event.detail, hex(trace.name(event.other_file)),
        event.other_offset, event.flags, process->pid,
        trace.threads()[static_cast<size_t>(event.thread)].tid, process->rank,
        host_of(trace, *process), hex(trace.name(process->command_line)),
        describe_tags(trace, event)));
    return {};
  });
  EXPECT_TRUE(visited.ok()) << visited.error().message();
  std::sort(lines.begin(), lines.end());
  return lines;
}

void add_random_events(SampleTrace& sample, uint64_t seed, size_t count) {
  Random random(seed);
  trace::TraceWriter& writer = sample.writer();
  const std::vector<NameIndex> names = strange_names(writer);
  const uint32_t here = writer.add_session({.host = "node1"});
  const uint32_t there = writer.add_session({.host = "node\"2\""});
  const NameIndex command = writer.add_name("python train.py --name 'a b'");
  const trace::Process processes[] = {
      {.session = here,
       .pid = 100,
       .parent_pid = 1,
       .rank = 0,
       .world_size = 2,
       .command_line = writer.add_name("sh -c python")},
      {.session = here,
       .pid = 100,
       .parent_pid = 1,
       .rank = 0,
       .world_size = 2,
       .exited = true,
       .exit_code = 3,
       .command_line = command},
      {.session = there,
       .pid = 100,
       .rank = 1,
       .world_size = 2,
       .origin = wire::ProcessOrigin::kFork,
       .command_line = command},
  };
  const std::vector<wire::Call> calls = every_call();
  for (const trace::Process& process : processes) {
    const trace::ProcessIndex index = writer.add_process(process);
    const trace::ThreadIndex threads[] = {writer.add_thread({.process = index, .tid = 100}),
                                          writer.add_thread({.process = index, .tid = 101})};
    trace::EventColumns columns;
    for (size_t i = 0; i < count; ++i) {
      Event event = random_call(random, calls[random.below(calls.size())], names);
      event.begin_ns = random.below(1'000'000'000'000);
      event.end_ns = event.begin_ns + (random.next() >> (24 + random.below(40)));
      const std::vector<trace::RegionTag> tags = random_tags(random, writer, names);
      event.tags = tags;
      append_event(columns, event, threads[random.below(2)]);
    }
    const Status appended = writer.append(columns);
    ASSERT_TRUE(appended.ok()) << appended.error().message();
  }
}

}  // namespace millrace::interop
