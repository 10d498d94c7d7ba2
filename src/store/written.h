// Written: brings the files that programs create below the root to the shared file system.
//
// One thread does it, in the order in which programs close, rename and remove files: so a file
// `latest` that is renamed after its checkpoint is not durable before it. A file is saved when its
// last writer has closed it; flush() also saves what is still open, as it is at that moment. While
// the shared file system is full or fails, the thread tries again, and nothing overtakes. If only
// one file cannot be saved, the others go on.
//
// What is removed or renamed is removed or renamed where it was saved, too. Nothing else there is
// touched.
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
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "store/announcer.h"
#include "store/catalogue.h"
#include "store/durable_copy.h"
#include "store/tree_watch.h"
#include "store/written_log.h"

namespace millrace::store {

struct WrittenOptions {
  std::filesystem::path node;
  std::filesystem::path save;  // a directory of the shared file system; empty: files stay local
  // Problems, one line each. Called by the thread of this object.
  std::function<void(const std::string& line)> log;
  // What programs have created is told to other nodes (announcer.h). Called by a thread of this
  // object, one at a time; empty: there are none. False: a node does not have what was renamed.
  std::function<bool(const NameNews& news)> tell = {};
  RemoteNames* others = nullptr;  // what these have created; must live longer
};

// How a flush ended: an errno value. 0: all is durable; EOPNOTSUPP: there is no directory to save
// to. The other nodes were told before.
using FlushCallback = std::function<void(int os_error)>;

class Written {
 public:
  // The catalogue must live longer.
  static Result<std::unique_ptr<Written>> start(const Catalogue& catalogue, WrittenOptions options);

  // Stops, without a flush.
  ~Written();
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  // A program will create names in this directory of the catalogue. Returns an errno value.
  int watch(uint64_t entry);

  // The same for one that was made for another node. What cannot be watched is logged.
  void watch_made(const std::string& directory);

  // Saves all that is there now. Calls `done` on a thread of this object.
  void flush(FlushCallback done);
  // Waits for it.
  int flush();

  // A symbolic link that will be in the tree is one of another node.
  void log_link(const std::string& path, const FileVersion& version);

  // Calls `done` when the other nodes know what programs of this one have done until now.
  // Thread-safe.
  void share(std::function<void()> done);

  // Null if there are no other nodes.
  Announcer* announcer() const { return announcer_.get(); }

  bool has_any() const { return has_any_; }

 private:
  struct Step {
    TreeChange change;
    uint64_t number = 0;
    FlushCallback done;  // of a flush: all steps before it were tried
    int passes = 0;      // of a flush: how often later steps went before it
  };
  struct Saved {
    FileVersion version;
    bool is_directory = false;
    unsigned mode = 0;
  };

  Written(const Catalogue& catalogue, WrittenOptions options, std::unique_ptr<TreeWatch> watch)
      : catalogue_(catalogue),
        options_(std::move(options)),
        log_(options_.node),
        watch_(std::move(watch)) {}

  std::filesystem::path in_tree(const std::string& path) const;
  std::filesystem::path in_save(const std::string& path) const { return options_.save / path; }
  Status start_threads();
  void work();
  void wait(int milliseconds) const;
  void collect_changes();
  void take_changes();
  void take_requests();
  void add(TreeChange change);
  void add_all();
  std::vector<WrittenFile> list(WrittenLog log);
  void answer(const FlushCallback& done, int os_error);
  bool is_current(const Step& step) const;
  void finish_step();
  bool must_pass_on();
  void run_first();
  void note_blocked(const Error& error);
  Status apply(const Step& step);
  Status put(const std::string& path, const std::string& as, uint64_t number);
  Status put_directory(const std::string& as, const struct stat& status);
  Status put_link(const std::string& path, const std::string& as, const struct stat& status);
  Status put_file(const std::string& path, const std::string& as, const struct stat& status,
                  uint64_t number);
  Status make_parents(const std::string& path);
  Status move(const std::string& from, const std::string& to, uint64_t number);
  Status move_directory(const std::string& from, const std::string& to, uint64_t number);
  Status move_files(const std::string& from, const std::string& to);
  void rename_saved(const std::string& from, const std::string& to);
  Status remove(const std::string& path);
  void remove_empty(const std::string& directory) const;
  void note_saved(const std::string& path, Saved saved);
  void note_gone(const std::string& path);
  void report(const std::string& line) const;

  const Catalogue& catalogue_;
  const WrittenOptions options_;
  WrittenLogFile log_;
  const std::string token_ = random_token();
  const std::unique_ptr<TreeWatch> watch_;
  File waker_;    // an eventfd: a flush, or the end
  File changed_;  // an eventfd: changes_ has some
  std::atomic<bool> has_any_ = false;
  std::atomic<bool> is_stopping_ = false;

  std::mutex mutex_;
  std::set<std::string> directories_;    // of the catalogue that are watched; guarded by mutex_
  std::vector<FlushCallback> requests_;  // guarded by mutex_

  std::mutex changes_mutex_;         // also: who takes changes from the watch
  std::vector<TreeChange> changes_;  // guarded by changes_mutex_
  std::unique_ptr<Announcer> announcer_;

  // Of the thread alone.
  std::deque<Step> steps_;
  uint64_t last_number_ = 0;
  std::unordered_map<std::string, uint64_t> newest_;  // the last step of each name that waits
  std::map<std::string, Saved> saved_;                // what we have made in the save directory
  std::set<std::string> forced_;                      // saved although open
  std::set<std::string> failed_;                      // could not be saved
  int try_count_ = 0;                                 // of the first step

  std::thread thread_;
};

}  // namespace millrace::store
