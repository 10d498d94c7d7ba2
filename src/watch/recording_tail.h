// RecordingTail: what one process has recorded since one last looked, each event once.
//
// Reads the rings and the log that the process writes (docs/formats/recording.md) from where the
// reading before ended, so that a look costs what is new, not what there is. Nothing is written, no
// lock is taken, and the process cannot tell.
//
// A packer may take the log away while it is followed. What it took is then in its packed file:
// is_behind() says so, and missing_from() which of the packed events have been delivered before.
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
#include "trace/byte_source.h"
#include "trace/recorded_events.h"
#include "trace/recording.h"
#include "trace/tables.h"

namespace millrace::watch {

class RecordingTail {
 public:
  // Called for each event: its slots, and where it happened.
  using Visit = std::function<void(std::span<const wire::TraceSlot>, trace::HostThread)>;
  // Null where there is no log; kNotFound where the recording has gone, with what was just copied
  // of it. Called after the rings were copied, so that what moves from a ring to the log meanwhile
  // is found in one of them.
  using OpenLog = std::function<Result<std::unique_ptr<trace::ByteSource>>()>;
  // Events, by process and thread.
  using Counts = std::map<std::pair<uint32_t, uint32_t>, uint64_t>;

  // Takes everything there is now for seen.
  void skip(const trace::ByteSource& rings, const OpenLog& open_log);

  // `is_over`: the process had ended before, so that nothing of it is still on its way.
  void read(const trace::ByteSource& rings, const OpenLog& open_log, bool is_over,
            const Visit& visit);

  // It was packed further than it was read; read() goes on after settle().
  bool is_behind() const { return is_behind_; }

  // Whether a packed file that holds `consumed` has events that were not delivered.
  bool is_missing_some_of(const trace::Consumed& consumed) const {
    return consumed.done || consumed.log_bytes > log_offset_;
  }
  // How many events of each thread were delivered that the packed file's next blocks hold: of each
  // thread these are the first.
  Counts delivered_before(const trace::Consumed& consumed) const;
  // What the packed file holds counts as delivered.
  void settle(const trace::Consumed& consumed);

  std::vector<std::string> take_problems() { return std::exchange(problems_, {}); }

 private:
  // How much of a ring's present content was delivered.
  struct RingState {
    uint64_t sequence = 0;
    size_t slots = 0;
    trace::HostThread place;  // of the next event
    Counts delivered;
  };
  struct RingCopy {
    uint32_t ring = 0;
    size_t first_slot = 0;
    trace::Chunk chunk;
  };
  // What was delivered of a chunk of the log, until a packer has it.
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
  bool has_told_damage_ = false;
  std::vector<std::string> problems_;
  std::vector<std::byte> scratch_;
};

}  // namespace millrace::watch
