// Tables: what a trace's events refer to, and how the tables are stored in blocks.
//
// Tables grow in increments. Names and threads are appended. Sessions and processes are rewritten
// as a whole when more is known about them; the last version counts. docs/formats/trace.md
// describes the bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "trace/pack/bytes_out.h"
#include "trace/trace.h"
#include "wire/clock.h"

namespace millrace::trace {

// The clock of a session. With a known clock, times are nanoseconds of the host's monotonic clock
// since `first`; otherwise they are on the file's own clock.
struct SessionClock {
  bool known = false;
  wire::CounterSource counter{};
  wire::ClockSample first{};
  wire::ClockSample last{};
};

struct SessionEntry {
  Session session;
  SessionClock clock;
  std::string directory;  // name of the recording's directory; empty: not a recording
};

// Whether two entries belong to the same recording: started at the same instant on the same host.
inline bool is_same_recording(const SessionEntry& a, const SessionEntry& b) {
  return a.clock.known && b.clock.known && a.session.host == b.session.host &&
         a.session.boot_id == b.session.boot_id &&
         a.clock.first.counter_ticks == b.clock.first.counter_ticks &&
         a.clock.first.monotonic_ns == b.clock.first.monotonic_ns;
}

// The monotonic clock of rank 0's host minus that of this process, measured over MPI.
struct PeerClock {
  int64_t offset_ns = 0;
  uint64_t uncertainty_ns = 0;  // 0: not measured
  uint64_t at_ns = 0;           // monotonic time of the measurement
};

struct ProcessEntry {
  Process process;
  wire::RankOrigin rank_origin{};
  PeerClock peer[2];      // at MPI_Init, at MPI_Finalize
  std::string recording;  // PID-TICKS, the name of its files; empty: not recorded
};

struct Tables {
  std::vector<std::string> names = {""};
  std::vector<SessionEntry> sessions;
  std::vector<ProcessEntry> processes;
  std::vector<Thread> threads;
  std::vector<LostEvents> losses;
};

// How much of one process's recording a packed trace contains.
struct Consumed {
  uint64_t log_bytes = 0;
  bool done = false;                           // everything: log, rings and losses
  std::map<uint32_t, uint64_t> next_sequence;  // by ring: smaller sequences were in the log
};

// States that the blocks from `from_offset` to this one are valid, and which parts of the recording
// they replace.
struct Commit {
  uint64_t from_offset = 0;
  std::map<std::string, Consumed> consumed;  // by ProcessEntry::recording
};

void put_names(const std::vector<std::string>& names, size_t first, size_t count, BytesOut& out);
void put_session(uint32_t index, const SessionEntry& entry, BytesOut& out);
void put_process(uint32_t index, const ProcessEntry& entry, BytesOut& out);
void put_rank_origin(uint32_t index, const ProcessEntry& entry, BytesOut& out);
void put_threads(const std::vector<Thread>& threads, size_t first, size_t count, BytesOut& out);
void put_loss(const LostEvents& loss, BytesOut& out);
void put_commit(const Commit& commit, BytesOut& out);
void put_clock(const std::vector<wire::ClockSample>& samples, BytesOut& out);

// Each function adds the entries of a block to the tables, and checks every index against the
// tables read so far.
Status take_names(ByteView payload, uint32_t count, Tables& tables);
Status take_sessions(ByteView payload, uint32_t count, Tables& tables);
Status take_processes(ByteView payload, uint32_t count, Tables& tables);
Status take_rank_origins(ByteView payload, uint32_t count, Tables& tables);
Status take_threads(ByteView payload, uint32_t count, Tables& tables);
Status take_losses(ByteView payload, uint32_t count, Tables& tables);
Status take_commit(ByteView payload, uint32_t count, Commit& commit);
Status take_clock(ByteView payload, uint32_t count, std::vector<wire::ClockSample>& samples);

}  // namespace millrace::trace
