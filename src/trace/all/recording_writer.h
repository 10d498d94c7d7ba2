// RecordingWriter: writes the recording of one program from another process.
//
// It writes the same files as the library in a program (docs/formats/recording.md), but with one
// ring for all threads: there is one writer, which states the thread before its events. The ring is
// a shared mapping, so a killed writer loses no event that it had recorded. Nothing here fails:
// what cannot be recorded is counted.
#pragma once

#include <cstdint>
#include <string>

#include "wire/trace_record.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// A call as recorded, with its result.
struct RecordedCall {
  wire::Call call = wire::Call::kEmpty;
  wire::NameId file = wire::kNoName;
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;
  wire::NameId other_file = wire::kNoName;
  uint64_t other_offset = wire::kNoOffset;
  uint32_t detail = 0;
  uint8_t flags = 0;
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;
  int64_t result = 0;
  uint16_t error = 0;
};

// What the page of a process says from the start.
struct ProcessImage {
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  wire::ProcessOrigin origin = wire::ProcessOrigin::kProgram;
  int32_t rank = -1;
  int32_t world_size = -1;
  wire::RankOrigin rank_origin{};
  uint64_t start_ticks = 0;
  uint64_t start_time = 0;
  wire::NameId executable = wire::kNoName;
  wire::NameId command_line = wire::kNoName;
  wire::NameId working_directory = wire::kNoName;
  wire::RecordedFrom recorded_from = wire::RecordedFrom::kOutside;
};

// How a process ended.
struct ProcessEnd {
  uint32_t exited = 0;  // like ProcessPage::exited
  int32_t code = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;
};

class RecordingWriter {
 public:
  // `session` is mapped and stays so; `directory` is its directory. If the files cannot be created,
  // all events are counted as lost in the session's page.
  RecordingWriter(wire::SessionPage* session, const std::string& directory,
                  const ProcessImage& image);
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  void record(uint32_t thread, const RecordedCall& call);
  void count_lost_event(uint64_t begin_ticks, int error);
  void count_lost_name();
  void end(const ProcessEnd& end);

 private:
  wire::TraceSlot* reserve(uint32_t thread, uint32_t slots);
  void write_out();
  wire::LossCounters& lost() { return page_ != nullptr ? page_->lost : session_->lost; }
  wire::ClockSample sample() const;

  wire::SessionPage* session_;
  std::string log_path_;
  int error_ = 0;                      // why there is no page
  wire::ProcessPage* page_ = nullptr;  // null: the files could not be created
  wire::Ring* ring_ = nullptr;
  uint32_t next_ = 0;            // the next slot to take
  uint32_t context_thread_ = 0;  // the thread of the ring's next events, for its reader
};

}  // namespace millrace::trace
