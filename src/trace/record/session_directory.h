// SessionDirectory: the files of one recording on disk, and which processes may still write them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/tick_map.h"
#include "trace/record/recording.h"

namespace millrace::trace {

// This machine, as named in sessions.
struct ThisHost {
  std::string name;
  std::string boot_id;
};
const ThisHost& this_host();

enum class Life {
  kEnded,
  kRunning,
  kElsewhere,  // on another host: whether it runs cannot be seen from here
};

class SessionDirectory {
 public:
  // Fails if the directory has no session page.
  static Result<SessionDirectory> open(const std::filesystem::path& path);
  static bool is_one(const std::filesystem::path& path);
  // A session that was packed and removed; only its page is left.
  static SessionDirectory removed(std::filesystem::path path, const wire::SessionPage& page) {
    return {std::move(path), page};
  }

  const std::filesystem::path& path() const { return path_; }
  const wire::SessionPage& page() const { return page_; }
  SessionEntry entry() const { return session_entry(page_, path_.filename().string()); }
  bool is_of_this_boot() const;

  // The file names of its process recordings without suffix, sorted. A process in a child page has
  // its parent's file name, '@' and the number of the page. Reads the directory on each call.
  std::vector<std::string> process_recordings() const;

  std::filesystem::path rings_path(const std::string& recording) const;
  std::filesystem::path log_path(const std::string& recording) const;

  // Deletes a recording that was packed and whose process has ended. Deletes its page first: a
  // reader that still finds the page afterwards has read a complete recording.
  void remove(const std::string& recording) const;

  // Gives the space of the beginning of a log back to the disk.
  void free_log_space(const std::string& recording, uint64_t size_bytes) const;

  Result<wire::ProcessPage> read_process(const std::string& recording) const;
  Result<ProcessRecording> read(const std::string& recording, const Consumed& consumed,
                                ProcessRecording::Extent extent) const;
  Result<ByteSource> open_rings(const std::string& recording) const;
  Result<ByteSource> names() const;

  // Whether the process of a page still runs. A program that was replaced by exec has ended;
  // `pages`, all those of the directory, show this.
  Life life_of(const wire::ProcessPage& page, const std::vector<wire::ProcessPage>& pages) const;

  // Converts ticks to nanoseconds, from clock samples of the session and of `pages`, and a new one
  // if the session is of this machine. `kept` are samples that a packer used before.
  TickMap tick_map(const std::vector<wire::ClockSample>& kept,
                   const std::vector<wire::ProcessPage>& pages) const;

 private:
  SessionDirectory(std::filesystem::path path, const wire::SessionPage& page)
      : path_(std::move(path)), page_(page) {}

  std::filesystem::path path_;
  wire::SessionPage page_;
};

// Removes what recorders have written into a session, and its directory. Returns false if somebody
// else has put files there: they stay.
bool remove_session(const std::filesystem::path& session);

// Processes that may still record into a session, even if they have not started to: their PIDs as
// this process sees them, without itself and without the watcher of --all, which ends after
// everything it watches. Checked before a session is removed. REQUIRES: the session belongs to this
// boot.
//
// A forked child creates its recording at its first recorded call, and a program when its libraries
// are loaded. Before that only /proc shows them: the child has inherited a mapping of the session's
// page, and the program has the session's path in its environment.
//
// Checks every process of the machine, independent of namespaces and of how they were started.
// Processes that we may not inspect (of another user, or protected from tracing) are not found.
std::vector<uint32_t> find_session_users(const SessionDirectory& session);

}  // namespace millrace::trace
