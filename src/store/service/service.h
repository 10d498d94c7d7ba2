// Service: serves the files of a pack to the programs of a node.
//
// It publishes the checked catalogue in the folder of the node (node_folder.h), and writes files
// into its tree when a client asks for them over the socket. Clients of other users are refused.
//
// On several nodes, each service holds some partitions (placement.h), and asks the others for the
// rest (peers.h). One that is lost is replaced by a replica, the pack, or the origin.
//
// It has no part in what programs create below the root, except that it copies what --buffer names
// to the upper directory (buffer/drain.h). The destructor removes the folder. If the process is
// killed, the next service of the user does.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/io/file.h"
#include "base/result.h"
#include "store/buffer/drain.h"
#include "store/order/order_follower.h"
#include "store/pack/member_source.h"
#include "store/pack/pack.h"
#include "store/peers/peers.h"
#include "store/peers/placement.h"
#include "store/service/node_arena.h"
#include "store/service/node_folder.h"
#include "store/service/node_tree.h"
#include "store/service/ready_sockets.h"
#include "wire/store_message.h"

namespace millrace::store {

struct ServiceOptions {
  std::filesystem::path packs;  // the directory of a pack
  std::filesystem::path root;   // where programs see the files: absolute
  std::filesystem::path local = kLocalDefault;
  uint64_t capacity_bytes = 0;            // 0: what default_capacity() says
  std::filesystem::path origin;           // empty: the directory that was packed, if it is there
  std::filesystem::path save;             // where programs create files; empty: the origin
  std::vector<std::string> buffer_globs;  // --buffer
  bool is_fast = false;                   // clients read from the arena (node_arena.h)
  size_t thread_count = 0;       // 0: twice the CPUs, because threads also wait for storage
  std::string job;               // the name of the folder; empty: a new one
  uint32_t replica_count = 1;    // how many nodes hold a partition
  std::function<void()> on_end;  // a peer asks this service to end; called by any thread
  // Problems, one line each; called by any thread, one at a time. May be empty.
  std::function<void(const std::string& line)> log;
};

// What `store status` shows besides the counters. NODE/service.json.
struct ServiceSettings {
  std::string packs;
  uint64_t capacity_bytes = 0;
  std::string save;  // where programs create files; empty: nowhere
};

Result<ServiceSettings> read_service_settings(const std::filesystem::path& node);

// Half of what is free in `local`, and of the free memory if it is in memory: the rest is the
// job's.
uint64_t default_capacity(const std::filesystem::path& local);

class Service {
 public:
  // On return, the folder is complete and requests are answered. `peers` are the services of the
  // other nodes; their log is set here.
  static Result<std::unique_ptr<Service>> start(ServiceOptions options,
                                                std::optional<PeersOptions> peers = std::nullopt);

  ~Service();

  // Ends the service. Returns whether all that programs wrote to the buffer is durable. The
  // destructor calls it.
  bool finish();

  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const std::filesystem::path& node() const { return folder_.path(); }
  const Catalogue& catalogue() const { return reader_.catalogue(); }
  uint64_t used_bytes() const { return tree_->used_bytes(); }
  uint64_t evicted_count() const { return tree_->evicted_count(); }
  const wire::StoreCounters& counters() const { return folder_.counters(); }
  Peers* peers() const { return peers_.get(); }  // null on one node

 private:
  // A client. Kept alive by the service while it is open, and by each request in the works.
  struct Connection : std::enable_shared_from_this<Connection> {
    explicit Connection(int fd) : file(fd) {}
    const File file;
  };

  Service(ServiceOptions options, PackReader reader, NodeFolder folder)
      : options_(std::move(options)), reader_(std::move(reader)), folder_(std::move(folder)) {}

  Status prepare(std::optional<PeersOptions> peers);
  Status publish_catalogue() const;
  Status choose_directories();
  Status open_buffer();
  Status open_sources(std::optional<PeersOptions> peers);
  Status check_partitions();
  Status read_ahead();
  void hold_partitions(const PeersOptions& peers);
  void open_peers(PeersOptions peers);
  void add_source(MemberSource source, uint64_t wire::StoreCounters::* files,
                  uint64_t wire::StoreCounters::* bytes);
  Status make_arena();
  Status listen();
  Status publish_settings() const;
  Status publish_state();
  Status start_threads();
  void work();
  void accept_clients();
  void serve(Connection& connection, BlockCodec& codec);
  void drop(Connection& connection);
  void reply(Connection& connection, const wire::StoreRequest& request, int os_error);
  void report(const std::string& line);
  void note_made(uint64_t size_bytes);
  void note_refusal();
  Result<PeerAnswer> answer_flush(ByteView question) const;

  ServiceOptions options_;
  PackReader reader_;
  NodeFolder folder_;
  std::optional<Placement> placement_;    // on several nodes
  std::unique_ptr<HeldPartitions> held_;  // the same
  std::unique_ptr<Peers> peers_;          // the same
  std::unique_ptr<ReadAhead> ahead_;      // null on several nodes, and for a pack on this node
  MemberSources sources_;
  std::unique_ptr<NodeTree> tree_;
  std::unique_ptr<NodeArena> arena_;         // null unless is_fast
  std::unique_ptr<OrderFollower> follower_;  // uses the tree
  std::unique_ptr<BufferDrain> drain_;       // null unless files are buffered
  File listener_;
  ReadySockets sockets_;
  std::vector<std::thread> threads_;

  Mutex connections_mutex_;
  std::unordered_map<const Connection*, std::shared_ptr<Connection>> connections_
      GUARDED_BY(connections_mutex_);

  Mutex log_mutex_;
  uint64_t line_count_ GUARDED_BY(log_mutex_) = 0;
  std::atomic<bool> has_refused_ = false;
};

}  // namespace millrace::store
