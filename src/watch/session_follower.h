// SessionFollower: the events of one session (one launch on one host) as they are recorded, each
// once, and which of its processes still run.
//
// A look costs what is new: the new slots of rings and logs, and a few small reads for each process
// that is not over. Where a packer has taken events away before they were read, they come from its
// packed file. Only reads; the job's files stay as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/columns.h"
#include "trace/packed_file.h"
#include "trace/session_directory.h"
#include "trace/tick_map.h"
#include "watch/recording_tail.h"

namespace millrace::watch {

// One program image of one process, as its page says it.
struct FollowedProcess {
  std::string recording;
  wire::ProcessPage page{};
  trace::Life life = trace::Life::kRunning;

  // Whether the page was read yet: that of a process that begins may be in the making.
  bool is_known() const { return page.magic == wire::kProcessMagic; }
};

class SessionFollower {
 public:
  enum class Start {
    kBeginning,  // everything there is, and will be
    kNow,        // what happens after the first look
  };

  // Events of one process, in the order in which its threads ended them. `file` is for name();
  // `thread` is the number that the host gives it. Tags are left out.
  using Visit = std::function<void(size_t process, const trace::EventColumns&)>;

  static Result<SessionFollower> open(const std::filesystem::path& directory, Start start);
  // A session that was packed into `file` and removed before anybody looked, from its beginning.
  static Result<SessionFollower> open_packed(const std::filesystem::path& file);

  // Delivers what is new. Nothing fails for good: what cannot be read is told by take_problems().
  void look(const Visit& visit);

  const std::filesystem::path& directory() const { return session_.path(); }
  const trace::SessionEntry& entry() const { return entry_; }
  const wire::SessionPage& page() const { return session_.page(); }
  // Those that were ever seen; indices stay.
  const std::vector<FollowedProcess>& processes() const { return processes_; }

  // At the last look no process of it ran any more, nor the launcher, or it was packed and removed.
  bool has_ended() const;

  // This moment on the session's clock: nanoseconds since it was made.
  uint64_t now_ns() const;

  // The path or text behind a `file` or a name of a page.
  std::string name(trace::NameIndex name);

  std::vector<std::string> take_problems();

 private:
  struct Tail {
    RecordingTail tail;
    bool is_complete = false;  // everything of it was delivered
    bool is_seen = false;      // its page could be read at this look
    int failures = 0;          // looks in a row at which it could not
    uint64_t attached_ns = 0;  // what ended before counts as delivered; 0: nothing does
    bool wants_packed = false;
    RecordingTail::Counts delivered;  // of what the packed file has next
  };
  class Batch;

  SessionFollower(trace::SessionDirectory session, Start start, std::filesystem::path packed_path);

  bool reopen();
  void look_for_launcher();
  Result<std::unique_ptr<trace::ByteSource>> open_log(const std::string& recording) const;
  void find_processes();
  size_t add_process(const std::string& recording);
  void read_pages();
  void leave_out_launchers();
  std::map<std::string, wire::ProcessPage> read_each_page();
  bool is_being_made(const std::string& recording) const;
  void miss(size_t process, const std::string& why);
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
  std::map<std::string, size_t> inside_of_;  // the recording from inside of one from outside
  std::filesystem::path packed_path_;
  std::optional<trace::PackedFile> packed_;
  size_t packed_blocks_read_ = 0;
  std::set<std::string> packed_before_;  // recordings that were packed and removed before the start
  std::optional<trace::ByteSource> names_;  // kept open: it is read when the session is gone
  std::vector<std::string> problems_;
};

}  // namespace millrace::watch
