// SessionFollower: delivers the events of one session (one launch on one host) as they are
// recorded, each once, and tracks which of its processes still run.
//
// A look costs what is new: the new slots of rings and logs, and a few small reads for each process
// that has not ended. If a packer removed events before they were read, they come from its packed
// file. It only reads; the job's files do not change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/columns.h"
#include "trace/read/packed_trace.h"
#include "trace/read/tick_map.h"
#include "trace/record/session_directory.h"
#include "watch/recording_tail.h"

namespace millrace::watch {

// One program image of one process, as its page describes it.
struct FollowedProcess {
  std::string recording;
  wire::ProcessPage page{};
  trace::Life life = trace::Life::kRunning;

  // Whether the page was read. A starting process may not have written it yet.
  bool is_known() const { return page.magic == wire::kProcessMagic; }
};

class SessionFollower {
 public:
  enum class Start {
    kBeginning,  // everything, including what was recorded before
    kNow,        // only what happens after the first look
  };

  // Called with events of one process, in the order in which its threads finished them. Pass `file`
  // to name(). `thread` is the thread id on its host. Tags are left out.
  using Visit = std::function<void(size_t process, const trace::EventColumns&)>;

  static Result<SessionFollower> open(const std::filesystem::path& directory, Start start);
  // Opens a session that was packed into `file` and removed before the first look. Delivers it from
  // its beginning.
  static Result<SessionFollower> open_packed(const std::filesystem::path& file);

  // Delivers what is new. Never fails: take_problems() returns what could not be read.
  void look(const Visit& visit);

  const std::filesystem::path& directory() const { return session_.path(); }
  const trace::SessionEntry& entry() const { return entry_; }
  const wire::SessionPage& page() const { return session_.page(); }
  // All processes seen so far. Indices are stable.
  const std::vector<FollowedProcess>& processes() const { return processes_; }

  // True if, at the last look, neither a process of the session nor its launcher was running, or if
  // the session was packed and removed.
  bool has_ended() const;

  // The current time on the session's clock: nanoseconds since the session was created.
  uint64_t now_ns() const;

  // The path or text that a `file` or a name in a page stands for.
  std::string name(trace::NameIndex name);

  std::vector<std::string> take_problems();

 private:
  struct Tail {
    RecordingTail tail;
    bool is_complete = false;  // everything was delivered
    bool is_seen = false;      // its page was read in this look
    int failures = 0;          // consecutive looks in which it was not
    uint64_t attached_ns = 0;  // skip what ended before; 0: skip nothing
    bool wants_packed = false;
    RecordingTail::Counts delivered;  // among the next packed events
  };
  class Batch;

  SessionFollower(trace::SessionDirectory session, Start start, std::filesystem::path packed_path);

  bool reopen();
  void check_launcher();
  Result<std::unique_ptr<trace::ByteSource>> open_log(const std::string& recording) const;
  void find_processes();
  size_t add_process(const std::string& recording);
  void read_pages();
  void leave_out_launchers();
  std::map<std::string, wire::ProcessPage> read_each_page();
  bool is_being_created(const std::string& recording) const;
  void count_failure(size_t process, const std::string& why);
  void read_tails(const Visit& visit, bool only_behind);
  void read_tail(size_t process, const trace::TickMap& ticks, const Visit& visit);
  void find_packed();
  void read_packed(const Visit& visit);
  void plan_packed();
  void take_block(size_t block, const Visit& visit);
  size_t owner_of(const std::string& recording, wire::Call call) const;
  void end_removed();
  void note(std::string problem) { problems_.push_back(std::move(problem)); }

  trace::SessionDirectory session_;
  trace::SessionEntry entry_;
  Start start_;
  bool is_first_look_ = true;
  trace::Life launcher_ = trace::Life::kRunning;
  bool is_removed_ = false;
  std::vector<FollowedProcess> processes_;
  std::vector<Tail> tails_;  // by process
  std::map<std::string, size_t> by_recording_;
  std::map<std::string, size_t> inside_of_;  // outside recording -> process index of its inside one
  std::filesystem::path packed_path_;
  std::optional<trace::PackedTrace> packed_;
  size_t packed_blocks_read_ = 0;
  std::set<std::string> packed_before_;     // recordings packed and removed before the first look
  std::optional<trace::ByteSource> names_;  // kept open: still read when the session is gone
  std::vector<std::string> problems_;
};

}  // namespace millrace::watch
