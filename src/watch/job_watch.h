// JobWatch: a job seen while it runs: all sessions of a trace directory, look after look.
//
// Events count where they are seen, which is when they ended: a call, or a region, that still goes
// on is in no window yet. The first look takes what is there for the past; sessions that appear
// later are counted from their beginning. Not thread-safe.
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

// One process's part in a worker.
struct ProcessMember {
  const FollowedProcess* process = nullptr;
  const ProcessActivity* activity = nullptr;
  uint64_t window_ns = 0;  // how long its activity is of
};

class JobWatch {
 public:
  // `path` is the directory that is recorded into, or one session's directory in it. It may be
  // empty, or not be there yet. Fails where it is something else, or holds files and no trace.
  static Result<JobWatch> open(const std::filesystem::path& path);

  // Reads what is new since the look before. The first one's window is empty.
  Snapshot look();

 private:
  struct Session {
    SessionFollower follower;
    bool is_past = false;       // had ended before the watching began
    uint64_t looked_at_ns = 0;  // monotonic; 0: never
    uint64_t window_ns = 0;     // between the last two looks at it, or since it began
    WindowBounds window;
    std::vector<ProcessActivity> activities;  // by process
    FileActivities files;
    std::unordered_map<uint32_t, Role> roles;  // of regions' names
  };

  // The processes that are shown as one, by rank, session and process.
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
  std::map<std::string, int> refusals_;                       // directories that cannot be opened
  std::vector<std::string> found_problems_;
  std::set<std::string> told_problems_;
  std::map<std::string, int> packed_files_;  // looks until it must be settled
  OperationKinds total_;
};

}  // namespace millrace::watch
