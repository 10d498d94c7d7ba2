// SessionDirectory: the files of one recording on disk, and who still writes them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/recording.h"
#include "trace/tick_map.h"

namespace millrace::trace {

// This machine, as sessions name it.
struct ThisHost {
  std::string name;
  std::string boot_id;
};
const ThisHost& this_host();

enum class Life {
  kEnded,
  kRunning,
  kElsewhere,  // on another host, from where it cannot be seen whether it runs
};

class SessionDirectory {
 public:
  // Fails where the directory holds no session's page.
  static Result<SessionDirectory> open(const std::filesystem::path& path);
  static bool is_one(const std::filesystem::path& path);
  // One that was packed and removed, of which the page is left to be told of.
  static SessionDirectory removed(std::filesystem::path path, const wire::SessionPage& page) {
    return {std::move(path), page};
  }

  const std::filesystem::path& path() const { return path_; }
  const wire::SessionPage& page() const { return page_; }
  SessionEntry entry() const { return session_entry(page_, path_.filename().string()); }
  bool is_of_this_boot() const;

  // The names of its processes' files without their endings, in order; of a process in an area of
  // its parent's, the file's and the area's number behind '@'. Looks each time.
  std::vector<std::string> recordings() const;

  std::filesystem::path rings_path(const std::string& recording) const;
  std::filesystem::path log_path(const std::string& recording) const;

  // All of it was packed, and its process has ended. Its page goes first: whoever finds the page
  // after reading has read the rest whole.
  void remove(const std::string& recording) const;

  Result<wire::ProcessPage> read_process(const std::string& recording) const;
  Result<ProcessRecording> read(const std::string& recording, const Consumed& consumed,
                                ProcessRecording::Extent extent) const;
  Result<ByteSource> open_rings(const std::string& recording) const;
  Result<ByteSource> names() const;

  // Of a process whose page is given. A program that was replaced by exec has ended; whether it was
  // is seen in `pages`, all of the directory's.
  Life life_of(const wire::ProcessPage& page, const std::vector<wire::ProcessPage>& pages) const;

  // Ticks to nanoseconds, from the samples of the session, of `pages`, and of now where this is the
  // machine. `kept` are those a packer used before.
  TickMap tick_map(const std::vector<wire::ClockSample>& kept,
                   const std::vector<wire::ProcessPage>& pages) const;

 private:
  SessionDirectory(std::filesystem::path path, const wire::SessionPage& page)
      : path_(std::move(path)), page_(page) {}

  std::filesystem::path path_;
  wire::SessionPage page_;
};

}  // namespace millrace::trace
