// CallFollower: turns the stops of a watched thread at its system calls into events, and keeps what
// is known of its process in step with what the calls did.
//
// The thread is stopped whenever this is called, so what /proc says of it stands still. Nothing
// fails: what cannot be learnt (memory that cannot be read, a process that is gone) is left out of
// the event, what cannot be kept is counted.
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

// A call as the kernel tells it at its first stop.
struct CallEntry {
  uint64_t number = 0;
  uint64_t arguments[6] = {};
  uint64_t instruction = 0;  // the address it was made from
  uint64_t stack = 0;        // the stack's, at that moment
};

class CallFollower {
 public:
  // `session` is mapped and stays. `own_libraries` are the paths of our libraries in programs.
  CallFollower(wire::SessionPage* session, std::string directory, SessionNames names,
               std::vector<std::string> own_libraries)
      : session_(session),
        directory_(std::move(directory)),
        names_(std::move(names)),
        own_libraries_(std::move(own_libraries)) {}

  uint64_t now() const { return wire::read_ticks(session_->counter); }

  // The first stop of a call. False: nobody wants to know how it ends.
  bool begin(TracedThread& thread, const CallEntry& entry);

  // The second. `result` as the kernel has it: minus an errno value where the call failed.
  void finish(TracedThread& thread, int64_t result);

  // A call in the numbers of another architecture: counted as lost.
  void count_foreign(TracedThread& thread);

  // The process is another program now; what exec closed is closed.
  void executed(TracedThread& thread);

  // A process was copied from `parent`, which it may share things with (flags of clone).
  void forked(TracedProcess& child, const TracedProcess& parent, uint64_t flags);

  // Begins a copy's recording, before it has anything to record: its page must be older than that
  // of the library in it.
  void started(TracedProcess& child);

  // The process is about to go; its memory is still there.
  void ending(TracedThread& thread);

  // It has gone; `status` is what wait said.
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

  // How much of a mapping, or of all of a process's, is in its memory.
  RecordedCall use_of(TracedThread& thread, const FileMapping& mapping);
  std::vector<RecordedCall> uses_of_memory(TracedThread& thread);

  wire::SessionPage* session_;
  std::string directory_;
  SessionNames names_;
  std::vector<std::string> own_libraries_;
};

}  // namespace millrace::trace
