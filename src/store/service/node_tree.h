// NodeTree: the files of a pack as real files, made one by one when they are needed.
//
// Directories and symbolic links exist from the start. A file appears complete, with its mode and
// time, or not at all: it is written in another directory, compared with its checksum, and renamed.
// When the capacity is used up, further files are refused (no LRU: docs/design/store.md), unless
// the coming reads are known (add_order). Then a file makes room for one that is read before it,
// and take_next() says what to fetch ahead. A file that is open stays. Thread-safe.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "store/order/coming_uses.h"
#include "store/pack/catalogue.h"
#include "store/pack/member_source.h"

namespace millrace::store {

// How a request for a file ended: an errno value, 0 for success.
using MadeCallback = std::function<void(int os_error)>;

inline int os_error_of(const Error& error) {
  return error.code() == Errc::kExhausted ? ENOSPC : EIO;
}

// Whether `index`, which a client has sent, is a file of the catalogue.
inline bool is_file_in(const Catalogue& catalogue, uint64_t index) {
  return index < catalogue.entry_count() &&
         catalogue.entry(static_cast<uint32_t>(index)).kind == wire::EntryKind::kFile;
}

// The files that are being made, and who waits for each besides its maker. Guarded by the owner.
class InMaking {
 public:
  // Whether the caller has to make the file. If not, `done` is taken over.
  bool begin(uint32_t index, MadeCallback& done) {
    const auto [found, is_first] = waiting_.try_emplace(index);
    if (!is_first) found->second.push_back(std::move(done));
    return is_first;
  }
  // Returns those who wait.
  std::vector<MadeCallback> end(uint32_t index) {
    return std::move(waiting_.extract(index).mapped());
  }
  void begin(uint32_t index) { waiting_.try_emplace(index); }
  bool contains(uint32_t index) const { return waiting_.contains(index); }

 private:
  std::unordered_map<uint32_t, std::vector<MadeCallback>> waiting_;
};

struct NodeTreeOptions {
  std::filesystem::path tree;    // existing, empty
  std::filesystem::path making;  // existing, on the same file system
  uint64_t capacity_bytes = 0;   // of all files together, in whole pages
  // Called by any thread; may be empty.
  // A new file gets its name after this, so that nobody sees a file that was not counted.
  std::function<void(uint64_t size_bytes)> on_made;
  // It is gone: for another one that is needed earlier, or because it could not get its name.
  std::function<void(uint64_t size_bytes)> on_gone;
  std::function<void(const Error& error)> on_problem;  // a source failed; another one may follow
};

class NodeTree {
 public:
  // Creates the directories and links. The catalogue and the sources must live longer.
  static Result<std::unique_ptr<NodeTree>> create(const Catalogue& catalogue,
                                                  const MemberSources& sources,
                                                  NodeTreeOptions options);

  // Makes the file of an entry if it is not there, and calls `done`. If another thread is making it
  // already, returns at once, and that thread will call `done`. Errors: EINVAL: not a file; ENOSPC:
  // the capacity or the disk is full; EIO: the bytes could not be read, or are damaged.
  void make(uint64_t index, BlockCodec& codec, MadeCallback done);

  // The coming reads of a loader, which begins now. append_order() says what it reads,
  // advance_order() how many reads are done.
  uint64_t add_order();
  void append_order(uint64_t order, std::span<const uint32_t> entries);
  void advance_order(uint64_t order, uint64_t position);
  void remove_order(uint64_t order);
  uint64_t entry_count() const { return catalogue_.entry_count(); }

  // The file that is needed soonest and is not there, with room for it, which make_taken() must
  // make. nullopt: there is none, or no room for it before some file was read.
  std::optional<uint32_t> take_next();
  // Returns an errno value as for make().
  int make_taken(uint32_t index, BlockCodec& codec);

  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t evicted_count() const { return evicted_count_; }

  // Takes bytes from the capacity, for what is kept outside of the tree. False: there are not so
  // many left.
  bool reserve(uint64_t bytes);
  void release(uint64_t bytes) { used_bytes_ -= bytes; }

 private:
  NodeTree(const Catalogue& catalogue, const MemberSources& sources, NodeTreeOptions options)
      : catalogue_(catalogue),
        sources_(sources),
        options_(std::move(options)),
        uses_(catalogue.entry_count()) {}

  Status make_directories_and_links();
  Status make_directory(uint32_t index);
  Status make_link(uint32_t index);
  Status make_file(uint32_t index, BlockCodec& codec);
  Status write_file(uint32_t index, const std::string& name, BlockCodec& codec);
  Status publish(uint32_t index, const std::string& name);
  bool is_there(uint32_t index) const;
  uint64_t footprint(uint32_t index) const;
  int make_first(uint32_t index, BlockCodec& codec, bool is_reserved);
  int make_reserved(uint32_t index, BlockCodec& codec);
  void end(uint32_t index, int os_error, const MadeCallback& done);

  // What was removed is closed without it: that frees the bytes, which takes time.
  bool make_room(uint64_t bytes, UseTime needed_at, std::vector<File>& removed) REQUIRES(mutex_);
  bool evict(uint32_t index, std::vector<File>& removed) REQUIRES(mutex_);

  const Catalogue& catalogue_;
  const MemberSources& sources_;
  const NodeTreeOptions options_;
  File tree_;
  File making_;
  std::atomic<uint64_t> used_bytes_ = 0;
  std::atomic<uint64_t> evicted_count_ = 0;

  Mutex mutex_;
  ComingUses uses_ GUARDED_BY(mutex_);  // holds what is made
  InMaking in_making_ GUARDED_BY(mutex_);
};

}  // namespace millrace::store
