// WrittenLog: what the service knows about the files that programs created below the root: which
// directories they are in, and which of them are durable. NODE/written, docs/formats/store-node.md.
//
// Lines are only appended, each by one write, so the log of a service that was killed is usable. A
// file is DURABLE only if it still has the length, time and inode that were saved: what changed
// later is LOCAL, whatever the log says.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/catalogue.h"

namespace millrace::store {

// Which version of a file: a rename keeps it, a change of the bytes does not.
struct FileVersion {
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;

  static FileVersion of(const struct stat& status);
  auto operator<=>(const FileVersion&) const = default;
};

enum class LogKind : char {
  kToken = 'T',      // the token in the temporary names of copies, instead of a path
  kDirectory = 'W',  // programs create names in this directory of the catalogue
  kFlushing = 'F',   // a copy has begun
  kDurable = 'D',    // this version is durable under this name
  kGone = '-',       // the name was removed from where files are saved
  kOther = 'O',      // the symbolic link of this version is one of another node
};

struct LogLine {
  LogKind kind = LogKind::kGone;
  FileVersion version;  // of kDurable and kOther
  std::string path;     // relative to the root
};

// Whether a relative path stays below the directory that it is joined to. "" is that directory.
bool is_safe_path(std::string_view path);

std::string format_log_line(const LogLine& line);

// What all lines together say.
struct WrittenLog {
  std::string token;
  std::set<std::string> directories;
  std::map<std::string, FileVersion> durable;
  std::set<FileVersion> others;  // links of other nodes, whatever their names are now
  std::string flushing;          // the copy that was not completed; empty: none
};

// A line without an end is ignored: its writer was killed.
Result<WrittenLog> parse_written_log(std::string_view text);

// An empty log if nothing was written on this node.
Result<WrittenLog> read_written_log(const std::filesystem::path& node);

// Appends to NODE/written, which is created with the first line. Thread-safe.
class WrittenLogFile {
 public:
  explicit WrittenLogFile(std::filesystem::path node) : node_(std::move(node)) {}
  Status append(const LogLine& line);

 private:
  const std::filesystem::path node_;
  std::mutex mutex_;
  File file_;
  uint64_t size_bytes_ = 0;
};

enum class WrittenState : uint8_t { kLocal, kFlushing, kDurable };
std::string_view name_of(WrittenState state);

// A file or link that a program created.
struct WrittenFile {
  std::string path;  // relative to the root
  FileVersion version;
  WrittenState state = WrittenState::kLocal;
};

// The target of a symbolic link; nothing if there is no link of this name.
std::optional<std::string> read_link(const std::filesystem::path& name);

// Whether a name of the tree stands for a file of another node (wire/store_name.h).
bool is_shown(const std::filesystem::path& name);

// All that programs of this node created and that exists now, by time of change. Reads the
// directories of the tree.
std::vector<WrittenFile> list_written(const std::filesystem::path& node, const Catalogue& catalogue,
                                      const WrittenLog& log);

// The same for a node of any process.
Result<std::vector<WrittenFile>> list_written(const std::filesystem::path& node);

// A file of another node that is not durable, and whose bytes are there only.
struct RemoteFile {
  std::string path;  // relative to the root
  uint32_t rank = 0;
  uint64_t size_bytes = 0;
};

// All that are seen on this node, by path. `save` is where they become durable; empty: nowhere.
Result<std::vector<RemoteFile>> list_remote(const std::filesystem::path& node,
                                            const std::filesystem::path& save);

// Moves what is not durable to the directory `to`, which is on the same file system, with its
// relative paths, and returns it. `to` is created if there is anything.
Result<std::vector<WrittenFile>> rescue_written(const std::filesystem::path& node,
                                                const std::filesystem::path& to);

// Lines for users: a path and a length each, at most 20.
std::vector<std::string> describe_written(const std::vector<WrittenFile>& files);

}  // namespace millrace::store
