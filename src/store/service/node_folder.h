// NodeFolder: the directory of a job on a node, where its service and its programs meet.
// docs/formats/store-node.md.
//
// Private to the user (0700), with a random name. The service holds a lock on the directory as long
// as it lives, however it dies. So anyone can tell a folder in use from a stale one, even across
// PID namespaces, where PIDs mean nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"
#include "wire/store_state.h"

namespace millrace::store {

// The directory with the folders of all jobs of this user: LOCAL/millrace-store-UID.
std::filesystem::path nodes_directory(const std::filesystem::path& local);

inline constexpr char kLocalDefault[] = "/dev/shm";

// In the folder of the node: the settings of the service, and where one without a terminal writes
// its problems.
inline constexpr char kSettingsFile[] = "service.json";
inline constexpr char kLogFile[] = "log";

// The buffer of a job on this node. It is beside the folder, because it outlives the service.
std::filesystem::path buffer_of(const std::filesystem::path& node);
std::filesystem::path node_of(const std::filesystem::path& buffer);

// Files in the tree of a node that its catalogue lacks: programs made them in a way that the
// store's client does not see, such as raw system calls or a core dump. Relative to the root.
std::vector<std::string> foreign_files(const std::filesystem::path& node);

// Where such files stay when the folder of the node is removed, until the user removes them.
std::filesystem::path kept_of(const std::filesystem::path& node);
std::vector<std::filesystem::path> find_kept(const std::filesystem::path& parent);

// Waits until there is something to read, or until a process has ended (of a pidfd).
bool is_readable_within(int fd, std::chrono::milliseconds patience);

// The start time of a process as in /proc/PID/stat; 0 if there is none.
uint64_t process_start_time(pid_t pid);

// For the service: a new folder with its subdirectories. The destructor removes it, but no files of
// others.
class NodeFolder {
 public:
  // Also removes the stale folders in the same place. `job` is its name; empty: a random one.
  static Result<NodeFolder> create(const std::filesystem::path& local, const std::string& job = {});

  NodeFolder(NodeFolder&& other) noexcept;
  NodeFolder& operator=(NodeFolder&&) = delete;
  ~NodeFolder();

  const std::filesystem::path& path() const { return path_; }

  // Writes `state` under its name, with this process as the service, and maps it. Clients accept
  // the folder from now on.
  Status publish(wire::StoreState state);

  // REQUIRES: publish() has succeeded.
  wire::StoreCounters& counters() const { return state_->counters; }
  uint64_t& replaced() const { return state_->replaced; }
  ByteView state_bytes() const { return std::as_bytes(std::span(state_, 1)); }

 private:
  NodeFolder(std::filesystem::path path, File lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;  // empty: moved from
  File lock_;
  wire::StoreState* state_ = nullptr;
};

// Adds to a counter that other processes change, too.
void add_to_counter(uint64_t& counter, uint64_t amount);

// For everyone else: what the folder of a service says.
struct NodeStatus {
  std::filesystem::path path;
  wire::StoreState state = {};
  bool is_running = false;
};

// Whether a service has the folder.
bool is_running(const std::filesystem::path& node);

// Fails if there is no state, or if it is damaged.
Result<NodeStatus> read_node(const std::filesystem::path& path);

// The folders of this user's running services, without damaged ones.
std::vector<NodeStatus> find_nodes(const std::filesystem::path& local);

// Ends the service (SIGTERM, then SIGKILL after `patience`) and removes the folder.
Status end_node(const NodeStatus& node, std::chrono::milliseconds patience);

// Removes the folders of services that are dead. Returns how many.
size_t remove_stale_nodes(const std::filesystem::path& local);

}  // namespace millrace::store
