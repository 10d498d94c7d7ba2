// CallFollower: turns the system-call stops of a watched thread into events, and keeps track of
// what the calls change in its process.
//
// The thread is stopped whenever this is called, so /proc does not change meanwhile. Nothing fails:
// what cannot be found out (unreadable memory, a dead process) is left out of the event, and what
// cannot be recorded is counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/all/session_names.h"
#include "trace/all/traced_process.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// A call at its first stop.
struct CallEntry {
  uint64_t number = 0;
  uint64_t arguments[6] = {};
  uint64_t instruction = 0;  // address of the system-call instruction
  uint64_t stack = 0;        // stack pointer at that moment
};

class CallFollower {
 public:
  // `session` is mapped and stays so. `own_libraries` are the paths of our libraries in programs.
  CallFollower(wire::SessionPage* session, std::string directory, SessionNames names,
               std::vector<std::string> own_libraries)
      : session_(session),
        directory_(std::move(directory)),
        names_(std::move(names)),
        own_libraries_(std::move(own_libraries)) {}

  uint64_t now() const { return wire::read_ticks(session_->counter); }

  // The first stop of a call. False: its end is not needed.
  bool begin(TracedThread& thread, const CallEntry& entry);

  // The second stop. `result` as the kernel returns it: minus an errno value if the call failed.
  void finish(TracedThread& thread, int64_t result);

  // A call with another architecture's number: counted as lost.
  void count_foreign(TracedThread& thread);

  // The process has become another program: what exec closed is closed.
  void executed(TracedThread& thread);

  // A process was forked from `parent`, with which it may share resources (flags of clone).
  void forked(TracedProcess& child, const TracedProcess& parent, uint64_t flags);

  // Starts the recording of a forked process before it has any event: its page must be older than
  // that of the library inside it.
  void started(TracedProcess& child);

  // The process is about to end. Its memory still exists.
  void ending(TracedThread& thread);

  // The process has ended with this wait status.
  void ended(TracedProcess& process, int status);

 private:
  struct Location {
    wire::NameId name = wire::kNoName;
    bool is_descriptor = false;  // the path was empty: the descriptor itself is meant
  };

  RecordingWriter& writer_of(TracedProcess& process);
  void record(TracedThread& thread, const RecordedCall& call);
  wire::NameId intern(TracedProcess& process, std::string_view name);

  void drop_interrupted(TracedThread& thread, PendingCall& next);
  bool resolve(TracedThread& thread, PendingCall& call);
  void resolve_paths(TracedThread& thread, PendingCall& call);
  void resolve_numbers(TracedThread& thread, PendingCall& call);
  void resolve_flags(TracedThread& thread, PendingCall& call);
  bool resolve_mapping(TracedThread& thread, PendingCall& call);
  void close_before(TracedThread& thread, PendingCall& call);
  Location locate(TracedThread& thread, int directory, uint64_t path);

  std::shared_ptr<OpenFile> file_behind(TracedThread& thread, int fd);
  const std::string& working_directory(TracedThread& thread);

  void apply(TracedThread& thread, PendingCall& call, int64_t result);
  void apply_descriptor(TracedThread& thread, PendingCall& call, int fd);
  void apply_position(TracedThread& thread, PendingCall& call, int64_t result);
  void apply_map(TracedThread& thread, PendingCall& call, uint64_t address);
  void apply_remap(TracedThread& thread, PendingCall& call, uint64_t address);
  uint64_t moved_from(TracedThread& thread, OpenFile* file, int fd, int64_t moved);

  // How much of a mapping, or of all mappings of a process, is in memory.
  RecordedCall use_of(TracedThread& thread, const FileMapping& mapping);
  std::vector<RecordedCall> uses_of_memory(TracedThread& thread);

  wire::SessionPage* session_;
  std::string directory_;
  SessionNames names_;
  std::vector<std::string> own_libraries_;
};

}  // namespace millrace::trace
