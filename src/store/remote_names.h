// RemoteNames: the files that programs of other nodes created, as this node sees them.
//
// A name appears in the tree when the other node says so: as a link (wire/store_name.h) without
// bytes. When a client asks, the bytes are fetched from that node in pieces, each compared with its
// checksum, into a copy in the node's directory. If they cannot be had there, but the file is
// durable, the link leads to where it was saved. Links lead there from the start only if the name
// was not known before: the inode of a file that someone has looked at must not change.
//
// A symbolic link of another node is the same link here. What tells it from one of this node is its
// version (has_link), which the log of the node has, too.
//
// A program may change a file of another node. It becomes a file of this node first, with its
// bytes, and the others hear of it when it is closed (take).
//
// Renaming and removing is repeated on all nodes, whoever created the name. Whoever holds the only
// bytes then saves them under the new name, or removes them where they were saved.
//
// If several nodes write one name, a file that replaces the one which is here counts. If they did
// not know of each other, the file with the latest time counts, and that of the higher rank if the
// times are equal: all nodes decide alike. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "store/announcer.h"
#include "store/catalogue.h"
#include "store/peers.h"

namespace millrace::store {

struct RemoteNamesOptions {
  std::filesystem::path node;
  std::filesystem::path save;  // where files become durable; empty: nowhere
  // Names will appear below this directory of the catalogue.
  std::function<void(uint32_t entry)> watch;
  // The file of this node counts; another one does not know. `theirs` is the version that it
  // replaced, zero if it replaced none.
  std::function<void(const std::string& path, const FileVersion& theirs)> tell_again;
  // Names will appear in a directory that was made for another node.
  std::function<void(const std::string& directory)> watch_made;
  // The tree will change because of another node, which is no news. tell_again takes it back.
  std::function<void(const std::string& path)> replace;  // by a link
  std::function<void(const std::string& path, const ToldName& file)> take;
  std::function<void(const std::string& path)> expect_removal;
  std::function<void(const std::string& from, const std::string& to)> expect_move;
  // A symbolic link of another node will be in the tree.
  std::function<void(const std::string& path, const FileVersion& version)> log_link;
  std::function<bool(uint64_t bytes)> reserve;  // takes them from the node's capacity
  std::function<void(uint64_t bytes)> release;
  std::function<void(const std::string& line)> log;  // called by any thread
  // How long a copy stays after its name is gone: a client may be about to open it.
  std::chrono::nanoseconds retired_patience = std::chrono::seconds(60);
};

// How a fetch ended: an errno value, 0 for success. ESTALE: the name has changed; EIO: the bytes
// cannot be had, and the log says why.
using FetchCallback = std::function<void(int os_error)>;

class RemoteNames {
 public:
  // The catalogue and the peers must live longer.
  RemoteNames(const Catalogue& catalogue, Peers& peers, RemoteNamesOptions options);

  // What happened on another node.
  Status note(Rank from, const NameNews& news);

  // What programs of this node did to names of other nodes, as the tree shows now. What the others
  // must hear about it; nothing if it was not a name of another node.
  std::optional<NameNews> take_removed(const std::string& path);
  bool take_moved(const std::string& from, const std::string& to);
  // A program of this node has renamed it to where nobody watches: it must not be lost.
  void restore(const std::string& path);
  // A program of this node has replaced the file. Returns what it was; zero if it was none of
  // another node.
  FileVersion claim(const std::string& path);
  // Whether a symbolic link is one of another node.
  bool has_link(const FileVersion& version);
  std::set<FileVersion> links();
  // Whether a directory is here because another node has it.
  bool has_made(const std::string& directory);

  // Files of a node that are not durable, by path.
  std::vector<RemoteFile> list_not_durable(Rank rank);

  // Gets the bytes of a name and calls `done`. If another thread is getting them already, returns
  // at once, and that thread will call `done`.
  void fetch(uint64_t id, FetchCallback done);

  // Makes a file of another node one of this node: with its bytes, or empty. It has the inode of
  // its link.
  enum class Content : uint8_t { kSame, kEmpty };
  void take(uint64_t link_inode, Content content, FetchCallback done);

 private:
  enum class Bytes : uint8_t { kThere, kFetched, kSaved, kLink };
  struct Name {
    Rank rank = comm::kFirstRank;
    uint64_t id = 0;
    FileVersion version;  // the inode is not known
    FileVersion base;     // which it replaced
    unsigned mode = 0;
    Bytes bytes = Bytes::kThere;
    bool is_durable = false;
    uint64_t link_inode = 0;  // of the link in the tree
    std::string target;       // of kLink
  };
  struct Retired {
    std::filesystem::path file;
    uint64_t bytes = 0;
    std::chrono::nanoseconds since{0};
  };
  using Names = std::map<std::string, Name>;

  std::filesystem::path in_tree(const std::string& path) const;
  std::filesystem::path in_fetched(uint64_t id) const;
  static std::string shown_link(const std::filesystem::path& real);
  static uint64_t copy_bytes(uint64_t file_bytes);  // what a copy takes from the capacity
  Status check_parents(const std::string& path) const;
  Status note_put(Rank from, const NameNews& news);
  Status note_saved(Rank from, const NameNews& news);
  Status note_directory(const NameNews& news);
  void note_removed(Rank from, const NameNews& news);
  Status note_moved(const NameNews& news);
  bool is_own(const std::string& path, const struct stat& status) const;
  void remove_own(const std::string& path, const FileVersion& here, const NameNews& news);
  void remove_directory(Rank from, const std::string& path);
  void move_names(const std::string& from, const std::string& to);
  bool is_newer_here(Rank from, const NameNews& news);
  bool was_taken(const NameNews& news) const;
  Status make_parents(const std::string& path);
  std::filesystem::path new_name();  // for something under construction
  Status link(const std::string& path, Name& name, const std::string& target);
  Status link_remote(const std::string& path, Name& name);
  Status make_link(const std::string& path, Name& name);
  Status reserve_copy(const Name& name) const;
  Status link_saved(const std::string& path, Name& name);
  bool is_saved(const std::string& path, const Name& name) const;
  void drop(Names::iterator name);
  void retire(const Name& name);
  void remove_retired();
  int adopt(uint64_t id, Content content);
  Status make_own(const std::string& path, const Name& name, Content content,
                  const std::filesystem::path& made) const;
  int fetch_first(uint64_t id);
  bool find_to_fetch(uint64_t id, std::string& path, Name& name);
  void wait_for_news(uint64_t id, const std::string& path);
  int finish_fetch(const std::string& path, uint64_t id, const Result<uint64_t>& fetched);
  Result<uint64_t> fetch_bytes(const std::string& path, const Name& name);
  Status fetch_version(const std::string& path, const Name& name, uint64_t& size_bytes);
  void report(const std::string& line) const;

  const Catalogue& catalogue_;
  Peers& peers_;
  const RemoteNamesOptions options_;

  std::mutex mutex_;  // guards the rest
  Names names_;
  std::unordered_map<uint64_t, std::string> paths_;  // by id
  uint64_t last_id_ = 0;
  uint64_t made_count_ = 0;
  std::map<std::string, FileVersion> taken_;  // files that are of this node now, as they were
  std::set<FileVersion> links_;      // symbolic links of other nodes, and some that are gone
  std::condition_variable changed_;  // a name
  std::set<std::string> made_directories_;
  std::deque<Retired> retired_;  // copies that a client may be about to open
  std::unordered_map<uint64_t, std::vector<FetchCallback>> in_fetching_;  // who waits besides
};

// Answers kReadName: a part of a file that a program of this node created.
Result<PeerAnswer> answer_read_name(const std::filesystem::path& tree, const Catalogue& catalogue,
                                    ByteView question);

}  // namespace millrace::store
