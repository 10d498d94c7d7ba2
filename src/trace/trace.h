// trace: the events of a job, how they are stored on disk, and how to read them.
//
// A trace is a directory, or one file of it. It contains packed traces (*.mrt,
// docs/formats/trace.md) and recordings that are not packed yet (docs/formats/recording.md). Trace
// reads both as one, and aligns the clocks of their hosts. Reading is lazy: tables when opening,
// then one block of events at a time, so a trace may be larger than memory.
//
// preload/ is the recorder, and all/ records system calls from outside. record/ launches a command
// and knows the files of a recording. pack/ writes packed traces, read/ opens traces, and summary/
// is `millrace info`.
//
// All input is checked before use. A file that ends inside a block is read up to there. problems()
// reports what is missing; nothing is left out silently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/read/columns.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// One launch on one host.
struct Session {
  std::string host;
  std::string boot_id;
  uint32_t launcher_pid = 0;
  uint32_t levels = 0;  // bit n: wire::Level n was recorded
  uint32_t cores = 0;   // CPUs that `millrace trace` and its children may use; 0: unknown
  std::string filters;
  // This host's clock relative to the common one, the largest error of a time of this session, and
  // what they were derived from ("wall clock", "MPI", "one host").
  int64_t offset_ns = 0;
  double drift_ppm = 0;
  uint64_t uncertainty_ns = 0;
  std::string alignment;
};

// One program in one process. A process that calls exec becomes another Process.
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

// Stands for processes that could not even create their own file.
inline constexpr ProcessIndex kNoProcess{~uint32_t{0}};

// Events that could not be recorded, and why.
struct LostEvents {
  ProcessIndex process{};  // or kNoProcess
  uint64_t events = 0;
  uint64_t names = 0;
  uint64_t first_ns = 0;  // begin of the first lost event
  uint64_t last_ns = 0;
  int error = 0;  // errno
};

// The time range of one block, for readers that need only a part of a trace.
struct BlockInfo {
  uint64_t event_count = 0;
  uint64_t begin_ns = 0;  // the earliest begin
  uint64_t end_ns = 0;    // the latest end
  ProcessIndex process{};
};

struct OpenedMembers;

class Trace {
 public:
  // `path` is a directory with *.mrt files and session directories, a session directory or a *.mrt
  // file.
  static Result<Trace> open(const std::string& path);

  // Opens several of these as one trace. problems() names paths and files that cannot be read.
  // Fails only if nothing at all can be used; the error then contains all problems. Paths that are
  // given twice, or that are inside another given directory, are read once.
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

  // What could not be read, as sentences that name the file and the position.
  const std::vector<std::string>& problems() const;

  uint64_t event_count() const;
  int64_t origin_wall_ns() const;  // zero of the common clock, since 1970-01-01 UTC

  // Reads the events of one block. Events of one thread are in the order of their ends. Several
  // threads may read at the same time. Overwrites `columns` and reuses their memory.
  Status read_block(size_t index, EventColumns& columns) const;

  // The levels of the events in a block: bit n for wire::Level n, bit 0 for levels that this
  // version does not know. Far cheaper than reading the block. Fails if read_block would fail
  // because of damage.
  Result<uint32_t> block_levels(size_t index) const;

 private:
  struct State;
  explicit Trace(std::unique_ptr<State> state);
  static Trace of_members(OpenedMembers opened);
  std::unique_ptr<State> state_;
};

// Writes one packed trace. Tables may grow at any time before finish(); a name, process or thread
// must be added before an event uses it. Without finish(), the file is readable up to its last
// block.
class TraceWriter {
 public:
  // `origin_wall_ns` is the wall time at zero of the times given to append().
  static Result<TraceWriter> create(const std::string& path, int64_t origin_wall_ns);

  // Where the events are until finish(). Removed if that is not called.
  const std::string& partial_path() const;

  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  uint32_t add_session(const Session& session);
  NameIndex add_name(std::string_view name);  // equal names have the same index
  ProcessIndex add_process(const Process& process);
  ThreadIndex add_thread(const Thread& thread);
  void add_loss(const LostEvents& loss);

  // REQUIRES: all events belong to one process.
  Status append(const EventColumns& columns);

  // Writes tables, index and trailer, and renames the file to its final name.
  Status finish();

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::trace
