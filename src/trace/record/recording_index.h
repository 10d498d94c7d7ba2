// RecordingIndex: maps the names, processes and threads of one recording to indices of a trace's
// tables.
//
// Registers new ones with a `Registry`: the writer of a packed trace, or tables in memory. The
// find_* functions only look up, and may be called from several threads.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/read/tables.h"
#include "trace/record/recorded_events.h"
#include "trace/record/recording.h"

namespace millrace::trace {

class Registry {
 public:
  virtual ~Registry() = default;
  virtual NameIndex add_name(std::string_view name) = 0;
  virtual ProcessIndex add_process(const ProcessEntry& entry) = 0;
  virtual ThreadIndex add_thread(const Thread& thread) = 0;
};

// The entry of a process, from its page. `pid` is the page's own or that of a vfork child, which
// writes into its parent's files.
ProcessEntry process_entry(const wire::ProcessPage& page, uint32_t pid,
                           const std::string& recording, const TickMap& ticks);

// Matches recordings of the same program made from inside and from outside: maps the name of each
// inside recording to that of its outside recording. docs/design/all-mode.md has the rule.
std::map<std::string, std::string> find_joined(
    const std::map<std::string, wire::ProcessPage>& pages);

// Copies what only a page from inside knows: the rank, and the clocks of MPI.
void take_from_inside(ProcessEntry& entry, const wire::ProcessPage& inside);

class RecordingIndex {
 public:
  RecordingIndex(Registry& registry, ByteSource names)
      : registry_(registry), names_source_(std::move(names)) {}

  // Takes over what a packed trace already has of this recording.
  void remember(const Tables& tables);

  // Events of these inside recordings are attributed to the process of their outside recording.
  void set_joined(std::map<std::string, std::string> joined) { joined_ = std::move(joined); }
  bool is_joined(const std::string& recording) const { return joined_.contains(recording); }

  NameIndex name(wire::NameId id);
  ProcessIndex process(const wire::ProcessPage& page, uint32_t pid, const std::string& recording,
                       const TickMap& ticks);
  ThreadIndex thread(ProcessIndex process, uint32_t tid);

  const NameIndex* find_name(wire::NameId id) const;
  const ThreadIndex* find_thread(ProcessIndex process, uint32_t tid) const;
  NameIndex origin_pid();
  NameIndex origin_tid();

  // Replaces the name table, which grows while programs run.
  void set_names(ByteSource names) { names_source_ = std::move(names); }

  std::vector<std::string> take_problems() { return std::exchange(problems_, {}); }

 private:
  Registry& registry_;
  ByteSource names_source_;
  std::map<std::string, std::string> joined_;
  std::unordered_map<uint32_t, NameIndex> names_;
  std::map<std::pair<std::string, uint32_t>, ProcessIndex> processes_;
  std::map<std::pair<uint32_t, uint32_t>, ThreadIndex> threads_;
  std::vector<std::string> problems_;
};

// For EventAppender: registers names and threads of one process when they occur.
class RegisteringNames {
 public:
  explicit RegisteringNames(RecordingIndex& index) : index_(index) {}
  NameIndex operator()(wire::NameId id) {
    if (id != last_id_) {
      last_index_ = index_.name(id);
      last_id_ = id;
    }
    return last_index_;
  }
  NameIndex origin_pid() { return index_.origin_pid(); }
  NameIndex origin_tid() { return index_.origin_tid(); }

 private:
  RecordingIndex& index_;
  wire::NameId last_id_ = wire::kNoName;
  NameIndex last_index_{};
};

class RegisteringThreads {
 public:
  RegisteringThreads(RecordingIndex& index, ProcessIndex process)
      : index_(index), process_(process) {}
  ThreadIndex operator()(HostThread thread) {
    if (!known_ || thread.tid != last_tid_) {
      last_index_ = index_.thread(process_, thread.tid);
      last_tid_ = thread.tid;
      known_ = true;
    }
    return last_index_;
  }

 private:
  RecordingIndex& index_;
  ProcessIndex process_;
  bool known_ = false;
  uint32_t last_tid_ = 0;
  ThreadIndex last_index_{};
};

}  // namespace millrace::trace
