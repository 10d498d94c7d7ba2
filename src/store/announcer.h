// Announcer: tells the other nodes what programs of this node create, rename and remove below the
// root, as soon as it happens: a file when its last writer has closed it. Names that other nodes
// created can be renamed and removed here, too, and they hear of it.
//
// One thread does it, in the order in which things are added, so a later state of a name never
// overtakes an earlier one. It also waits for changes of the tree itself: saving files, which may
// take long or be stuck, does not delay the news.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/tree_watch.h"
#include "store/written_log.h"
#include "wire/store_peer.h"

namespace millrace::store {

class RemoteNames;

// What the other nodes hear about a name.
struct NameNews {
  wire::PeerNameChange change = wire::PeerNameChange::kPut;
  std::string path;     // relative to the root
  std::string to;       // of kMoved; of a symbolic link, its target
  FileVersion version;  // of a file or link; zero: any
  unsigned mode = 0;    // with the kind, of kPut
  FileVersion base;     // of kPut: the version that it replaces; zero: none
};

// What the others know about a name of this node.
struct ToldName {
  FileVersion version;  // what is here. The others have it, unless a program has just taken the
                        // file of another node
  unsigned mode = 0;    // with the kind
  FileVersion theirs;   // what the others have
};

// A PeerName and its paths.
std::string name_question(const NameNews& news);
Result<NameNews> parse_name_question(ByteView question);

// Whether anyone has the file open for writing.
bool has_writers(const File& file);

struct AnnouncerOptions {
  std::filesystem::path tree;
  int changes_fd = -1;                             // readable: take_changes() has something to do
  std::function<void()> take_changes;              // adds them
  std::function<std::vector<std::string>()> list;  // all that programs created
  // Called by the thread of this object. False: a node does not have what was renamed.
  std::function<bool(const NameNews& news)> tell;
  RemoteNames* others = nullptr;  // what other nodes created; null: nothing
};

class Announcer {
 public:
  static Result<std::unique_ptr<Announcer>> start(AnnouncerOptions options);

  // Calls what was added by call(), and tells nothing any more.
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  // Each returns at once. Thread-safe.
  void add(const TreeChange& change);
  void add_saved(const std::string& path, const FileVersion& version);
  void add_gone(const std::string& path);  // from where it was saved
  // Another node does not know the latest file, which has replaced `theirs`.
  void add_again(const std::string& path, const FileVersion& theirs);
  // The tree will change because of another node, which has told everyone. Call them before it
  // does; add_again takes them back.
  void add_expected_removal(const std::string& path);
  void add_expected_move(const std::string& from, const std::string& to);
  void add_replaced(const std::string& path);  // by a name of another node
  // A file of another node will be one of this node, and has not changed yet.
  void add_taken(const std::string& path, const ToldName& file);
  // After all that was added before.
  void call(std::function<void()> function);

 private:
  struct Item {
    std::function<void()> work;
    bool is_call = false;
  };

  explicit Announcer(AnnouncerOptions options) : options_(std::move(options)) {}

  void push(std::function<void()> work, bool is_call = false);
  void work();
  void announce(const TreeChange& change);
  void put(const std::string& path);
  void put_link(const std::string& path, const struct stat& status);
  void tell_new(const std::string& path, const struct stat& status, const std::string& target);
  bool use_taken(const std::string& path);
  void put_all_below(const std::string& directory);
  void put_open(bool is_last);
  void move(const std::string& from, const std::string& to);
  std::map<std::string, ToldName> rename_told(const std::string& from, const std::string& to);
  void remove(const std::string& path, bool has_left = false);
  bool was_expected(const std::string& path);
  void put_moved(const std::string& path);
  void forget(const std::string& path);
  void forget_and_tell(const std::string& path);
  void compare_all();
  bool exists(const std::string& path) const;

  const AnnouncerOptions options_;
  File waker_;  // an eventfd
  std::atomic<bool> is_stopping_ = false;
  // Of the thread alone.
  std::map<std::string, ToldName> told_;
  std::map<std::string, int> open_;  // files that had writers, and how often that was seen
  std::set<std::string> expected_removals_;
  std::map<std::string, std::string> expected_moves_;

  std::mutex mutex_;
  std::deque<Item> items_;                 // guarded by mutex_
  std::map<std::string, ToldName> taken_;  // the same: not in told_ yet

  std::thread thread_;
};

}  // namespace millrace::store
