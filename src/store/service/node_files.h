// NodeFiles: the files of a node's store, for our own programs.
//
// A member of a partition on this node is read from the mapped partition, without a file or a
// system call: a raw one without a copy, a compressed one by the calling thread. For any other
// file, the service is asked to put it into the tree, and that file is read. If the service is
// dead, silent or has no room, the file is read from the origin. Bytes are compared with their
// checksum: those in the mapping once in a process, all others each time. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/io/mapped_file.h"
#include "base/result.h"
#include "store/preload/service_line.h"
#include "wire/catalogue_view.h"
#include "wire/store_state.h"

namespace millrace::store {

struct NodeFilesOptions {
  std::filesystem::path node;
  // Until the service has answered; 0: what MILLRACE_STORE_DEADLINE_MS says.
  std::chrono::milliseconds deadline{0};
  // The first time that a file comes from the origin; may be empty.
  std::function<void(const std::string& why)> on_fallback;
};

class NodeFiles {
 public:
  static Result<std::shared_ptr<NodeFiles>> open(NodeFilesOptions options);
  ~NodeFiles();

  const std::filesystem::path& node() const { return options_.node; }
  const wire::CatalogueView& catalogue() const { return view_; }
  std::string_view root() const { return root_; }
  std::chrono::milliseconds deadline() const {
    return std::chrono::milliseconds(line_.deadline_ms);
  }

  // The path below the root, or nullopt if it is elsewhere. Does not follow links.
  std::optional<std::string> below_root(std::string_view path) const;

  // The entry of a path below the root; links are followed. wire::kNoEntry: there is none, or a
  // link leads out of the store.
  uint32_t find(std::string_view path) const;

  // REQUIRES for all of these: `file` is a file of the catalogue.
  uint64_t size_bytes(uint32_t file) const { return view_.entry(file).size_bytes; }
  std::string path(uint32_t file) const;  // below the root

  // Whether it is read from a partition on this node.
  bool is_local(uint32_t file) const { return !member(file).empty() || size_bytes(file) == 0; }

  // Whether all files are.
  bool is_all_local() const;
  // Looks again for partitions on this node: the service may have copied some.
  void map_partitions() const;

  // The bytes in the mapping, valid as long as this; nullopt if it is not local or compressed.
  std::optional<ByteView> view(uint32_t file) const;

  // REQUIRES: out.size() is size_bytes(file)
  Status read(uint32_t file, MutableByteView out) const;

  // A descriptor of the whole file: in the tree, or at the origin.
  Result<File> open_file(uint32_t file) const;
  // Only in the tree. The service is asked for it if it is not there.
  Result<File> open_in_tree(uint32_t file) const;

 private:
  explicit NodeFiles(NodeFilesOptions options) : options_(std::move(options)) {}

  Status map_node();
  const MappedFile* partition(uint32_t number) const;
  ByteView member(uint32_t file) const;
  bool check_once(uint32_t file, ByteView bytes) const;
  Status read_packed(uint32_t file, MutableByteView out) const;
  Status read_file(uint32_t file, MutableByteView out) const;
  Result<File> open_origin(uint32_t file, const Error& why) const;
  void count(uint64_t wire::StoreCounters::* counter) const;

  const NodeFilesOptions options_;
  std::string root_;
  std::string origin_;
  std::optional<MappedFile> catalogue_;
  wire::CatalogueView view_;
  std::filesystem::path packs_;
  wire::StoreState* state_ = nullptr;  // mapped, for the counters
  File tree_;

  mutable std::vector<std::atomic<const MappedFile*>> partitions_;  // null: not on this node
  mutable std::vector<std::atomic<uint64_t>> checked_;              // a bit for each entry
  mutable std::atomic<bool> has_fallen_back_ = false;
  mutable ServiceLine line_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<MappedFile>> mapped_ GUARDED_BY(mutex_);
};

// The store of this job, if MILLRACE_STORE names one that is there; otherwise null.
std::shared_ptr<NodeFiles> open_job_files();

}  // namespace millrace::store
