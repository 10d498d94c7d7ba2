// RecordingTail: reads what one process has recorded since the last look, each event once.
//
// Reads the rings and the log that the process writes (docs/formats/recording.md), starting where
// the previous read ended. So a look costs what is new, not what there is. It writes nothing and
// takes no lock; the process does not notice.
//
// A packer may remove the log while it is followed. What it removed is in its packed trace:
// is_behind() is then true, and delivered_before() returns which of the packed events were already
// delivered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/byte_source.h"
#include "trace/read/tables.h"
#include "trace/record/recorded_events.h"
#include "trace/record/recording.h"

namespace millrace::watch {

class RecordingTail {
 public:
  // Called for each event with its slots and the thread that recorded it.
  using Visit = std::function<void(std::span<const wire::TraceSlot>, trace::HostThread)>;
  // Returns null if there is no log, and kNotFound if the recording is gone, which makes the rings
  // just copied invalid. Called after the rings were copied, so that what moves from a ring to the
  // log meanwhile is found in one of them.
  using OpenLog = std::function<Result<std::unique_ptr<trace::ByteSource>>()>;
  // Number of events, by process and thread.
  using Counts = std::map<std::pair<uint32_t, uint32_t>, uint64_t>;

  // Skips everything recorded so far.
  void skip(const trace::ByteSource& rings, const OpenLog& open_log);

  // `is_over`: the process had already ended, so nothing more will be written.
  void read(const trace::ByteSource& rings, const OpenLog& open_log, bool is_over,
            const Visit& visit);

  // The packer is ahead of the reader. read() continues after settle().
  bool is_behind() const { return is_behind_; }

  // Whether a packed trace that contains `consumed` has events that were not delivered.
  bool is_missing_some_of(const trace::Consumed& consumed) const {
    return consumed.done || consumed.log_bytes > log_offset_;
  }
  // Of the events in the next blocks of the packed trace, how many were already delivered, by
  // thread. They are the first ones of each thread.
  Counts delivered_before(const trace::Consumed& consumed) const;
  // Marks everything in the packed trace as delivered.
  void settle(const trace::Consumed& consumed);

  std::vector<std::string> take_problems() { return std::exchange(problems_, {}); }

 private:
  // How much of a ring's current content was delivered.
  struct RingState {
    uint64_t sequence = 0;
    size_t slots = 0;
    trace::HostThread thread;  // thread of the next event
    Counts delivered;
  };
  struct RingCopy {
    uint32_t ring = 0;
    size_t first_slot = 0;
    trace::Chunk chunk;
  };
  // What was delivered of a chunk of the log. Kept until a packer has taken the chunk.
  struct LoggedChunk {
    uint64_t end_offset = 0;
    Counts delivered;
  };

  std::vector<RingCopy> copy_rings(const trace::ByteSource& rings, bool is_over);
  void read_log(const trace::ByteSource& log, const std::vector<RingCopy>& copies, bool is_over,
                const Visit& visit);
  bool read_log_chunk(const trace::ByteSource& log, const std::vector<RingCopy>& copies,
                      bool is_over, const Visit& visit);
  bool pass_damage(const trace::ByteSource& log);
  void deliver_logged(trace::Chunk chunk, const Visit& visit);
  void deliver(const trace::Chunk& chunk, RingState& state, const Visit& visit);
  void remember(LoggedChunk chunk);

  std::map<uint32_t, RingState> rings_;
  uint64_t log_offset_ = 0;
  std::deque<LoggedChunk> logged_;  // since the last settle()
  bool is_behind_ = false;
  bool has_reported_damage_ = false;
  std::vector<std::string> problems_;
  std::vector<std::byte> scratch_;
};

}  // namespace millrace::watch
