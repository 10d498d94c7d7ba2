#include "interop/perfetto_packets.h"

#include <fmt/core.h>

#include <bit>

#include "base/text/protobuf.h"
#include "interop/describe.h"
#include "interop/encode_text.h"

namespace millrace::interop {
namespace {

// Field numbers of the messages in perfetto/trace/perfetto_trace.proto that are used here.
namespace trace_file {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
                   kInternedData = 12, kSequenceFlags = 13, kTimestampClockId = 58, kDefaults = 59,
                   kTrackDescriptor = 60;
}
namespace snapshot {
constexpr uint32_t kClocks = 1, kPrimaryClock = 2, kClockId = 1, kClockTime = 2;
}
namespace track {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParentUuid = 5;
}
namespace process_track {
constexpr uint32_t kPid = 1, kCommandLine = 2, kName = 6;
}
namespace thread_track {
constexpr uint32_t kPid = 1, kTid = 2, kName = 5;
}
namespace track_event {
constexpr uint32_t kCategoryIids = 3, kAnnotations = 4, kType = 9, kNameIid = 10, kTrackUuid = 11;
}
namespace annotation {
constexpr uint32_t kNameIid = 1, kUint = 3, kInt = 4, kDouble = 5, kText = 6, kTextIid = 17;
}
namespace interned {
constexpr uint32_t kCategories = 1, kNames = 2, kKeys = 3, kTexts = 29, kIid = 1, kText = 2;
}

constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kInstant = 3;
constexpr uint64_t kClockRealtime = 1, kClockBoottime = 6;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr uint32_t kHeadSequence = 1;  // for packets that belong to no process

// The numbers of interned texts. Names of the trace use their index, after the fixed ones.
constexpr uint64_t kFirstNameIid = 0x1000;
enum Key : uint64_t {
  kFile = 1,
  kOffset,
  kSize,
  kResult,
  kErrno,
  kOtherFile,
  kOtherOffset,
  kDetail,
  kEpoch,
  kStep,
  kKeyEnd,
};
constexpr std::string_view kKeyNames[] = {"",       "file",  "offset",     "size",
                                          "result", "errno", "other_file", "other_offset",
                                          "detail", "epoch", "step"};
static_assert(std::size(kKeyNames) == kKeyEnd);

uint64_t iid_of(trace::NameIndex name) { return kFirstNameIid + static_cast<uint64_t>(name); }
uint64_t iid_of_error(uint16_t error) { return error < 0xfff ? error + uint64_t{1} : 0xfff; }

// Numbers of the tracks of processes, threads and additional lanes of threads.
uint64_t process_uuid(uint64_t process) { return uint64_t{1} << 62 | process; }
uint64_t thread_uuid(trace::ThreadIndex thread, size_t lane) {
  return uint64_t{1} << 61 | static_cast<uint64_t>(lane) << 32 | static_cast<uint64_t>(thread);
}

}  // namespace

void PerfettoPackets::clock_snapshot(uint64_t start_ns) {
  ProtobufWriter proto(out_);
  const auto clock = [&](uint64_t id, uint64_t time_ns) {
    proto.message(snapshot::kClocks, [&] {
      proto.uint(snapshot::kClockId, id);
      proto.uint(snapshot::kClockTime, time_ns);
    });
  };
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kSequenceId, kHeadSequence);
    proto.message(packet::kClockSnapshot, [&] {
      clock(kClockBoottime, start_ns);
      clock(kClockRealtime, static_cast<uint64_t>(trace_.origin_wall_ns()) + start_ns);
      proto.uint(snapshot::kPrimaryClock, kClockBoottime);
    });
  });
}

void PerfettoPackets::begin_process(trace::ProcessIndex index) {
  for (auto& space : seen_) space.clear();
  sequence_ = kHeadSequence + 1 + static_cast<uint32_t>(index);
  const trace::Process& process = trace_.processes()[static_cast<size_t>(index)];
  ProtobufWriter proto(out_);
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kSequenceId, sequence_);
    proto.uint(packet::kSequenceFlags, kStateCleared);
    proto.message(packet::kDefaults,
                  [&] { proto.uint(packet::kTimestampClockId, kClockBoottime); });
    proto.message(packet::kTrackDescriptor, [&] {
      proto.uint(track::kUuid, process_uuid(static_cast<uint64_t>(index)));
      proto.message(track::kProcess, [&] {
        proto.sint(process_track::kPid, static_cast<int32_t>(process.pid));
        const std::string_view command = trace_.name(process.command_line);
        if (!command.empty()) proto.text(process_track::kCommandLine, well_formed(command));
        proto.text(process_track::kName, process_title(trace_, process));
      });
    });
  });
}

void PerfettoPackets::describe_thread(trace::ThreadIndex index) {
  const trace::Thread& thread = trace_.threads()[static_cast<size_t>(index)];
  const auto process = static_cast<size_t>(thread.process);
  ProtobufWriter proto(out_);
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kSequenceId, sequence_);
    proto.message(packet::kTrackDescriptor, [&] {
      proto.uint(track::kUuid, thread_uuid(index, 0));
      proto.uint(track::kParentUuid, process_uuid(process));
      proto.message(track::kThread, [&] {
        proto.sint(thread_track::kPid, static_cast<int32_t>(trace_.processes()[process].pid));
        proto.sint(thread_track::kTid, thread.tid);
        proto.text(thread_track::kName, fmt::format("thread {}", thread.tid));
      });
    });
  });
}

void PerfettoPackets::describe_lane(trace::ThreadIndex index, size_t lane) {
  const trace::Thread& thread = trace_.threads()[static_cast<size_t>(index)];
  ProtobufWriter proto(out_);
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kSequenceId, sequence_);
    proto.message(packet::kTrackDescriptor, [&] {
      proto.uint(track::kUuid, thread_uuid(index, lane));
      // Below the process, because a track below a thread would be merged into it.
      proto.uint(track::kParentUuid, process_uuid(static_cast<uint64_t>(thread.process)));
      proto.text(track::kName, fmt::format("overlapping on thread {}", thread.tid));
    });
  });
}

void PerfettoPackets::slice_begin(const Event& event, size_t lane) {
  event_packet(event, lane, kSliceBegin);
}

void PerfettoPackets::instant(const Event& event, size_t lane) {
  event_packet(event, lane, kInstant);
}

void PerfettoPackets::slice_end(trace::ThreadIndex thread, size_t lane, uint64_t time_ns) {
  ProtobufWriter proto(out_);
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kTimestamp, time_ns);
    proto.uint(packet::kSequenceId, sequence_);
    proto.uint(packet::kSequenceFlags, kNeedsState);
    proto.message(packet::kTrackEvent, [&] {
      proto.uint(track_event::kType, kSliceEnd);
      proto.uint(track_event::kTrackUuid, thread_uuid(thread, lane));
    });
  });
}

void PerfettoPackets::event_packet(const Event& event, size_t lane, uint64_t type) {
  ProtobufWriter proto(out_);
  const uint64_t name = event.is_region() ? iid_of(event.file) : static_cast<uint64_t>(event.call);
  proto.message(trace_file::kPacket, [&] {
    proto.uint(packet::kTimestamp, event.begin_ns);
    proto.uint(packet::kSequenceId, sequence_);
    proto.uint(packet::kSequenceFlags, kNeedsState);
    write_interned(event);
    proto.message(packet::kTrackEvent, [&] {
      proto.uint(track_event::kType, type);
      proto.uint(track_event::kTrackUuid, thread_uuid(event.thread, lane));
      proto.uint(track_event::kNameIid, name);
      proto.uint(track_event::kCategoryIids, static_cast<uint64_t>(event.call) >> 8);
      write_annotations(event);
    });
  });
}

bool PerfettoPackets::first_use(Space space, uint64_t id) {
  std::vector<bool>& seen = seen_[static_cast<size_t>(space)];
  if (id >= seen.size()) seen.resize(id + 1 + id / 2);
  if (seen[id]) return false;
  seen[id] = true;
  return true;
}

void PerfettoPackets::intern(Space space, uint64_t id, std::string_view text) {
  static constexpr uint32_t kFields[] = {interned::kNames, interned::kCategories, interned::kKeys,
                                         interned::kTexts};
  ProtobufWriter proto(out_);
  // One InternedData message per text: all readers merge repeated occurrences of a field.
  proto.message(packet::kInternedData, [&] {
    proto.message(kFields[static_cast<size_t>(space)], [&] {
      proto.uint(interned::kIid, id);
      proto.text(interned::kText, well_formed(text));
    });
  });
}

void PerfettoPackets::write_interned(const Event& event) {
  const uint64_t level = static_cast<uint64_t>(event.call) >> 8;
  const auto use = [this](Space space, uint64_t id, auto&& text) {
    if (first_use(space, id)) intern(space, id, text());
  };
  const auto use_name = [&](Space space, trace::NameIndex name) {
    use(space, iid_of(name), [&] { return trace_.name(name); });
  };
  use(Space::kCategories, level, [&] { return level_name(event.call); });
  if (event.is_region()) {
    use_name(Space::kNames, event.file);
  } else {
    use(Space::kNames, static_cast<uint64_t>(event.call), [&] { return call_name(event.call); });
    if (event.file != trace::NameIndex{}) use_name(Space::kTexts, event.file);
    if (event.other_file != trace::NameIndex{}) use_name(Space::kTexts, event.other_file);
  }
  if (event.error != 0) {
    use(Space::kTexts, iid_of_error(event.error), [&] { return error_name(event.error); });
  }
  if (first_use(Space::kKeys, kFile)) {
    for (uint64_t key = kFile; key < kKeyEnd; ++key) intern(Space::kKeys, key, kKeyNames[key]);
  }
  for (const trace::RegionTag& tag : event.tags) {
    use_name(Space::kKeys, tag.key);
    if (tag.kind == wire::TagKind::kText) {
      use_name(Space::kTexts, static_cast<trace::NameIndex>(tag.value));
    }
  }
}

void PerfettoPackets::integer_annotation(uint64_t key, uint64_t value) {
  ProtobufWriter proto(out_);
  proto.message(track_event::kAnnotations, [&] {
    proto.uint(annotation::kNameIid, key);
    proto.uint(annotation::kUint, value);
  });
}

void PerfettoPackets::text_annotation(uint64_t key, trace::NameIndex text) {
  if (text == trace::NameIndex{}) return;
  ProtobufWriter proto(out_);
  proto.message(track_event::kAnnotations, [&] {
    proto.uint(annotation::kNameIid, key);
    proto.uint(annotation::kTextIid, iid_of(text));
  });
}

void PerfettoPackets::write_tag(const trace::RegionTag& tag) {
  ProtobufWriter proto(out_);
  proto.message(track_event::kAnnotations, [&] {
    proto.uint(annotation::kNameIid, iid_of(tag.key));
    switch (tag.kind) {
      case wire::TagKind::kInteger:
        return proto.sint(annotation::kInt, static_cast<int64_t>(tag.value));
      case wire::TagKind::kNumber:
        return proto.number(annotation::kDouble, std::bit_cast<double>(tag.value));
      case wire::TagKind::kText:
        return proto.uint(annotation::kTextIid, iid_of(static_cast<trace::NameIndex>(tag.value)));
      case wire::TagKind::kNone:
        return proto.text(annotation::kText, "");
    }
  });
}

void PerfettoPackets::write_region_annotations(const Event& event) {
  if (event.size != wire::kNoEpoch) integer_annotation(kEpoch, event.size);
  if (event.offset != wire::kNoStep) integer_annotation(kStep, event.offset);
}

void PerfettoPackets::write_annotations(const Event& event) {
  ProtobufWriter proto(out_);
  if (event.is_region()) {
    write_region_annotations(event);
  } else {
    text_annotation(kFile, event.file);
    if (event.offset != wire::kNoOffset) integer_annotation(kOffset, event.offset);
    if (event.size != 0) integer_annotation(kSize, event.size);
    proto.message(track_event::kAnnotations, [&] {
      proto.uint(annotation::kNameIid, kResult);
      proto.sint(annotation::kInt, event.result);
    });
    text_annotation(kOtherFile, event.other_file);
    if (event.other_offset != wire::kNoOffset) integer_annotation(kOtherOffset, event.other_offset);
    if (event.detail != 0) integer_annotation(kDetail, event.detail);
  }
  if (event.error != 0) {
    proto.message(track_event::kAnnotations, [&] {
      proto.uint(annotation::kNameIid, kErrno);
      proto.uint(annotation::kTextIid, iid_of_error(event.error));
    });
  }
  for (const trace::RegionTag& tag : event.tags) write_tag(tag);
}

}  // namespace millrace::interop
