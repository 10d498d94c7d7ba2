// NodeArena: the bytes of files in one file that clients map, for reading without system calls
// (`--fast`). docs/formats/store-node.md.
//
// A file's bytes are written, compared with their checksum by the source, and then published with
// one store into `places`; from then on they never move or change. So a client needs no lock, and
// may go on reading when the service is dead. The pages exist before they are published: reading
// them does not raise SIGBUS. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "store/pack/catalogue.h"
#include "store/pack/member_source.h"
#include "store/service/node_tree.h"
#include "wire/store_state.h"

namespace millrace::store {

struct NodeArenaOptions {
  std::filesystem::path directory;  // of the node
  uint64_t capacity_bytes = 0;      // shared with the tree, which counts
  // Called by any thread; may be empty.
  std::function<void(uint64_t size_bytes)> on_placed;
  std::function<void(const Error& error)> on_problem;  // a source failed; another one may follow
};

class NodeArena {
 public:
  // Creates the two files. The catalogue, the sources and the tree must live longer.
  static Result<std::unique_ptr<NodeArena>> create(const Catalogue& catalogue,
                                                   const MemberSources& sources, NodeTree& tree,
                                                   NodeArenaOptions options);
  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // Places the bytes of an entry's file if they are not there, and calls `done`; errors and threads
  // as in NodeTree::make. A file that could not be placed is refused from then on.
  void place(uint64_t index, BlockCodec& codec, MadeCallback done);

 private:
  NodeArena(const Catalogue& catalogue, const MemberSources& sources, NodeTree& tree,
            NodeArenaOptions options)
      : catalogue_(catalogue), sources_(sources), tree_(tree), options_(std::move(options)) {}

  Status make_files();
  std::atomic_ref<uint64_t> place_of(uint32_t entry) const {
    return std::atomic_ref<uint64_t>(places_[entry]);
  }
  int place_first(uint32_t entry, BlockCodec& codec);
  Status write(uint32_t entry, uint64_t offset_bytes, BlockCodec& codec);

  const Catalogue& catalogue_;
  const MemberSources& sources_;
  NodeTree& tree_;
  const NodeArenaOptions options_;
  File arena_;
  uint64_t arena_bytes_ = 0;
  uint64_t* places_ = nullptr;  // mapped
  std::atomic<uint64_t> next_ = wire::kPlaceAlignment;

  Mutex mutex_;
  InMaking in_making_ GUARDED_BY(mutex_);
};

}  // namespace millrace::store
