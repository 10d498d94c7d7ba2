// TreeWatch: what programs change in the tree of the node, in the order in which they do it.
//
// It uses inotify, so nothing depends on the programs: a file is complete when its last writer has
// closed it, also if that was killed. Directories of the catalogue are watched when a client says
// that it creates names there; directories that programs create are watched from the moment they
// are seen, with all that is in them. Names of the catalogue are left out.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/catalogue.h"

namespace millrace::store {

struct TreeChange {
  enum class Kind : uint8_t {
    kPut,     // a file, link or directory is there; a file may still be open
    kRemove,  // a name is gone, with all that was below it
    kMove,    // from `path` to `to`, with all that is below
    kLost,    // changes were missed: look at everything
  };
  Kind kind = Kind::kPut;
  std::string path;  // relative to the tree
  std::string to;
  bool has_left = false;  // of kRemove: it was renamed, to where nobody watches
};

class TreeWatch {
 public:
  // The catalogue must live longer.
  static Result<std::unique_ptr<TreeWatch>> create(const Catalogue& catalogue,
                                                   std::filesystem::path tree);

  // Becomes readable when something has changed.
  int fd() const { return inotify_.fd(); }

  // Watches a directory, but not those below it. Thread-safe.
  Status watch(const std::string& directory);

  // All that has changed since the last call; does not wait. Not thread-safe.
  std::vector<TreeChange> take();

 private:
  TreeWatch(const Catalogue& catalogue, std::filesystem::path tree, File inotify)
      : catalogue_(catalogue), tree_(std::move(tree)), inotify_(std::move(inotify)) {}

  struct Event {
    uint32_t mask = 0;
    uint32_t cookie = 0;
    std::string path;
  };
  bool read_events();
  std::string path_of(int watch, std::string_view name);
  void see(const Event& event);
  void see_created(const Event& event);
  void see_moved(const std::string& from, const Event& event);
  void enter(const std::string& directory);
  void rename_watches(const std::string& from, const std::string& to);
  void drop_watches(const std::string& directory);
  void settle_moved_from();

  const Catalogue& catalogue_;
  const std::filesystem::path tree_;
  const File inotify_;
  std::vector<TreeChange> changes_;
  Event moved_from_;  // a cookie: its other half may follow

  std::mutex mutex_;
  std::map<int, std::string> directories_;  // by watch; guarded by mutex_
};

// Whether `path` is `directory` or below it.
bool is_at_or_below(std::string_view path, std::string_view directory);

}  // namespace millrace::store
