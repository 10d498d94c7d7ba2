// Folder: the directory that a replay works in, and the only code of this module that opens,
// creates, renames or removes anything (tools/check_changes.py).
//
// A trace is input from strangers, and the folder may be the dataset itself. So, whatever a trace
// says:
//  - Nothing outside of the folder is opened. A name is looked up component by component, each from
//    the open directory before it, and never through a link or `..`. Somebody who replaces a
//    directory by a link while the replay runs does not lead it out.
//  - Only regular files and directories are opened, and none of /proc, /sys and their like.
//  - What this replay did not create is opened read-only, and keeps its name. O_EXCL and mkdir tell
//    what it did create; device, inode and time of birth are remembered, and compared before each
//    change.
//  - Names are created only in a folder that was new or empty, or that an earlier replay marked.
//
// openat2(RESOLVE_BENEATH) was rejected: old kernels and containers do not have it, and the store's
// preload library does not see it (docs/design/replay.md).
//
// Threads may share a Folder. Calls of the trace return an Outcome, in which only the call itself
// is measured, not the lookup of its directory. They fail with EPERM if they are not allowed.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "replay/outcome.h"

namespace millrace::replay {

// What a replay puts into a folder that it may create names in.
inline constexpr const char* kFolderMark = ".millrace-replay";

class Folder {
 public:
  struct Options {
    std::string path;         // created if it is missing
    bool only_reads = false;  // nothing is created, not even the folder
  };
  static Result<std::unique_ptr<Folder>> open(const Options& options);

  // Absolute, for messages.
  const std::string& path() const { return path_; }
  std::string place_of(std::string_view name) const;

  // Whether the folder was new or empty, or has the mark.
  bool may_create() const { return may_create_; }

  // Sets the mark if it is missing. Until then, no name is created. REQUIRES: may_create()
  Status mark();

  // Descriptors that are kept for lookups.
  size_t directories_max() const { return directories_max_; }

  // Where a name is, for calls that only look at it. All names are clean and relative to the
  // folder;
  // "" is the folder itself.
  struct Name {
    std::shared_ptr<const File> directory;  // shared with the cache, which may drop it meanwhile
    std::string last;                       // "." for the folder itself
    int error = 0;                          // errno; directory is null then

    int fd() const { return directory->fd(); }
  };
  Name find(std::string_view name);

  // The result is a descriptor. Without O_TRUNC, a file that this replay did not create is opened
  // read-only, whatever `flags` says.
  Outcome open_file(std::string_view name, uint32_t flags);
  Outcome make_directory(std::string_view name);
  Outcome remove(std::string_view name, bool is_directory);
  Outcome rename(std::string_view from, std::string_view to);
  Outcome link(std::string_view from, std::string_view to);
  Outcome truncate(std::string_view name, uint64_t size_bytes);

  // Removes a file, or a directory with all that is in it, as far as this replay created it.
  // Appends the names of what stays because it did not, or because it cannot be removed.
  void remove_created(std::string_view name, std::vector<std::string>& left);

  // Removes the mark, and the folder, if this replay created them and nothing else is left.
  void remove_itself();

 private:
  // The time of birth is 0 where file systems have none.
  struct Identity {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t born_s = 0;
    uint32_t born_ns = 0;

    auto operator<=>(const Identity&) const = default;
  };
  enum class Origin : uint8_t { kAbsent, kCreated, kForeign };
  struct Entry {
    Origin origin = Origin::kAbsent;
    Identity identity = {};
    uint32_t mode = 0;
    uint32_t link_count = 0;

    bool is_created() const { return origin == Origin::kCreated; }
  };

  Folder() = default;
  Result<bool> is_empty_or_marked();
  size_t find_known(std::string_view name, std::shared_ptr<const File>& directory);
  std::shared_ptr<const File> open_directory(std::string_view name, int& error);
  void forget_directories(std::string_view name);

  Entry look(int directory, const char* last) const;  // "": the descriptor itself
  Entry look_patiently(std::string_view text, const Name& name);
  template <typename Call, typename Look>
  Outcome creating(std::string_view text, Call call, Look look);
  void note_created(const Entry& entry);
  void forget(const Entry& entry);

  Outcome open_to_read(const Name& name, uint32_t flags) const;
  Outcome open_temporary(const Name& name, uint32_t flags) const;
  Outcome open_to_create(std::string_view text, const Name& name, uint32_t flags);
  Outcome open_to_change(const Name& name, uint32_t flags) const;
  bool remove_created_in(int directory, const std::string& last, const std::string& text,
                         std::vector<std::string>& left);

  std::string path_;
  std::shared_ptr<const File> root_;  // shared with Names
  bool may_create_ = false;
  bool is_marked_ = false;
  bool made_mark_ = false;
  std::optional<Identity> created_root_;
  size_t directories_max_ = 0;

  mutable Mutex created_mutex_;
  std::set<Identity> created_ GUARDED_BY(created_mutex_);
  // Names that may exist, but not in created_.
  std::multiset<std::string, std::less<>> being_created_ GUARDED_BY(created_mutex_);

  Mutex directories_mutex_;
  // By name.
  std::map<std::string, std::shared_ptr<const File>, std::less<>> directories_
      GUARDED_BY(directories_mutex_);
};

}  // namespace millrace::replay
