// JobWatch: watches a running job, by looking repeatedly at all sessions of a trace directory.
//
// An event counts in the window in which it is seen, which is when it ended. A call or region that
// is still in progress is in no window yet. The first look skips what is already there; sessions
// that appear later are counted from their beginning. Not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "watch/process_activity.h"
#include "watch/session_follower.h"
#include "watch/snapshot.h"

namespace millrace::watch {

// One process of a worker.
struct ProcessMember {
  const FollowedProcess* process = nullptr;
  const ProcessActivity* activity = nullptr;
  uint64_t window_ns = 0;  // the time that `activity` covers
};

class JobWatch {
 public:
  // `path` is the directory that the job records into, or the directory of one session in it. It
  // may be empty or not exist yet. Fails if it is not a directory, or contains files but no trace.
  static Result<JobWatch> open(const std::filesystem::path& path);

  // Reads what is new since the previous look. The window of the first look is empty.
  Snapshot look();

 private:
  struct Session {
    SessionFollower follower;
    bool is_past = false;       // had ended before the first look
    uint64_t looked_at_ns = 0;  // monotonic; 0: never
    uint64_t window_ns = 0;     // time between its last two looks, or since it began
    WindowBounds window;
    std::vector<ProcessActivity> activities;  // by process
    FileActivities files;
    std::unordered_map<uint32_t, Role> roles;  // by name of a region
  };

  // Processes that are shown as one worker. The key is rank, session and pid.
  struct Group {
    Session* session = nullptr;
    std::vector<ProcessMember> members;
  };
  using Groups = std::map<std::tuple<int32_t, std::string, uint32_t>, Group>;

  explicit JobWatch(std::filesystem::path path) : path_(std::move(path)) {}

  void find_sessions();
  void follow(SessionFollower follower);
  void find_packed();
  bool settle_packed(const std::filesystem::path& file, bool is_last_try);
  void begin_window(Session& session) const;
  void read(Session& session);
  Groups group_processes();
  void describe_sessions(Snapshot& snapshot);
  void describe_workers(Snapshot& snapshot);
  void describe_files(Snapshot& snapshot);

  std::filesystem::path path_;
  bool has_looked_ = false;
  uint64_t looked_at_ns_ = 0;                                 // monotonic
  std::map<std::string, std::unique_ptr<Session>> sessions_;  // by directory
  std::map<std::string, int> refusals_;                       // failed attempts to open a directory
  std::vector<std::string> found_problems_;
  std::set<std::string> reported_problems_;
  std::map<std::string, int> packed_files_;  // number of looks left to settle it
  OperationKinds total_;
};

}  // namespace millrace::watch
