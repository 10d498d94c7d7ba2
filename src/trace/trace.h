// trace: what a job did, as events; how they are kept on disk, and how to read them back.
//
// A trace is a directory, or one file of it: packed files (*.mrt, docs/formats/trace.md) and
// recordings not packed yet (docs/formats/recording.md). Trace reads both as one, and aligns the
// clocks of the hosts they come from. Reading is lazy: tables at opening, events a block at a time,
// so that a trace may be larger than the memory.
//
// Every byte is checked before it is believed. A file that ends in the middle of a block is read up
// to there; what is missing is said by problems(), never left out in silence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/columns.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// One launch on one host.
struct Session {
  std::string host;
  std::string boot_id;
  uint32_t launcher_pid = 0;
  uint32_t levels = 0;  // bit n: wire::Level n was recorded
  std::string filters;
  // The host's clock against the common one: how far a time of this session may be off, and what
  // that was derived from ("wall clock", "MPI", "one host").
  int64_t offset_ns = 0;
  double drift_ppm = 0;
  uint64_t uncertainty_ns = 0;
  std::string alignment;
};

// One program in one process: a process that calls exec becomes another.
struct Process {
  uint32_t session = 0;
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  int32_t rank = -1;  // -1: unknown
  int32_t world_size = -1;
  wire::ProcessOrigin origin = wire::ProcessOrigin::kProgram;
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;  // of its last event
  bool exited = false;  // by exit or _exit; otherwise killed, replaced by exec, or still running
  int32_t exit_code = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;
  NameIndex executable{};
  NameIndex command_line{};
  NameIndex working_directory{};
};

struct Thread {
  ProcessIndex process{};
  uint32_t tid = 0;
};

// Stands for processes that could not even make their own file.
inline constexpr ProcessIndex kNoProcess{~uint32_t{0}};

// Events that could not be kept, and why.
struct LostEvents {
  ProcessIndex process{};  // or kNoProcess
  uint64_t events = 0;
  uint64_t names = 0;
  uint64_t first_ns = 0;  // begin of the first event lost
  uint64_t last_ns = 0;
  int error = 0;  // errno
};

// Where one block's events lie in time, for readers that want a part of a trace.
struct BlockInfo {
  uint64_t event_count = 0;
  uint64_t begin_ns = 0;  // the earliest begin
  uint64_t end_ns = 0;    // the latest end
  ProcessIndex process{};
};

struct OpenedParts;

class Trace {
 public:
  // A directory with *.mrt files and session directories, a session directory, or one *.mrt file.
  static Result<Trace> open(const std::string& path);

  // Several of those as one trace. A path of which nothing can be read is named by problems(), and
  // so are files of it; it fails only where nothing at all can be used, with all of that in its
  // error. What is given twice, or lies in a directory that is given too, is read once.
  static Result<Trace> open_all(const std::vector<std::string>& paths);

  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;
  ~Trace();

  const std::vector<std::string>& names() const;
  std::string_view name(NameIndex index) const;
  const std::vector<Session>& sessions() const;
  const std::vector<Process>& processes() const;
  const std::vector<Thread>& threads() const;
  const std::vector<LostEvents>& losses() const;
  const std::vector<BlockInfo>& blocks() const;

  // What could not be read, as sentences that name the file and the place.
  const std::vector<std::string>& problems() const;

  uint64_t event_count() const;
  int64_t origin_wall_ns() const;  // the common clock's zero, since 1970-01-01 UTC

  // The events of one block; those of one thread stand in the order in which they ended. Several
  // threads may read at once. `columns` is overwritten, and its memory used again.
  Status read_block(size_t index, EventColumns& columns) const;

  // Which levels a block has events of: bit n for wire::Level n, bit 0 for levels that this version
  // does not know. Far cheaper than reading the block, for those who want some levels alone; fails
  // where read_block would for a damaged block.
  Result<uint32_t> block_levels(size_t index) const;

 private:
  struct State;
  explicit Trace(std::unique_ptr<State> state);
  static Trace of_parts(OpenedParts opened);
  std::unique_ptr<State> state_;
};

// Writes one packed file. Tables may grow at any time before finish(); a name, process or thread
// must have been added before an event uses it. The file is readable, up to the last block, also
// when finish() is never reached.
class TraceWriter {
 public:
  // `origin_wall_ns` is the wall time of the zero of the times given to append().
  static Result<TraceWriter> create(const std::string& path, int64_t origin_wall_ns);

  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  uint32_t add_session(const Session& session);
  NameIndex add_name(std::string_view name);  // the same index for the same name
  ProcessIndex add_process(const Process& process);
  ThreadIndex add_thread(const Thread& thread);
  void add_loss(const LostEvents& loss);

  // REQUIRES: all events are of one process.
  Status append(const EventColumns& columns);

  // Writes tables, index and footer, and puts the file at its final name.
  Status finish();

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
