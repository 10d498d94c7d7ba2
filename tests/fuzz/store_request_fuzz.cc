// Packets that a program sends to the service of a node, and questions of another node: whatever
// they are, the service lives, makes no file outside of its tree, and answers the next client. An
// input is packets, each after a byte with its length; or a byte 0, the kind of a question, and the
// question.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "comm/lifeline/message.h"
#include "comm/single.h"
#include "store/client/service_client.h"
#include "store/pack/packer.h"
#include "store/service/service.h"

namespace {

using namespace millrace;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Node {
  TemporaryDirectory directory = *TemporaryDirectory::create("/tmp", "mr-");
  std::unique_ptr<store::Service> service;
  std::unique_ptr<store::Peers> other;  // the second node of the job

  static store::PeersOptions peers_of(const store::PeerTable& table, uint32_t rank,
                                      comm::Listener listener) {
    store::PeersOptions options;
    options.table = table;
    options.own = static_cast<comm::Rank>(rank);
    options.listener = std::move(listener);
    return options;
  }

  Node() {
    const auto& top = directory.path();
    std::filesystem::create_directories(top / "source/a");
    std::filesystem::create_directories(top / "local");
    for (const char* name : {"source/a/one", "source/two"}) std::ofstream(top / name) << "text";
    auto comm = comm::single();
    require(
        store::pack_directory({.source = top / "source", .directory = top / "packs"}, *comm).ok());
    store::ServiceOptions options;
    options.packs = top / "packs";
    options.root = "/data/set";
    options.local = top / "local";
    options.save = top / "save";
    options.buffer_globs = {"*"};
    options.thread_count = 2;
    auto first = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
    auto second = comm::listen_for_ranks({.only_this_host = true, .interface = {}});
    const auto key = comm::make_key();
    require(first.ok() && second.ok() && key.ok());
    const store::PeerTable table{.job = store::random_job_name(),
                                 .key = *key,
                                 .places = {store::place_of(*first), store::place_of(*second)}};
    options.job = table.job;
    other = std::make_unique<store::Peers>(peers_of(table, 1, *std::move(second)));
    require(other->start().ok());
    auto started = store::Service::start(std::move(options), peers_of(table, 0, *std::move(first)));
    require(started.ok());
    service = *std::move(started);
  }

  // What is in the directory besides the node's own: a request must not add to it.
  size_t file_count() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }
};

File connect_to(const std::filesystem::path& node) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (node / "socket").c_str(), sizeof(address.sun_path) - 1);
  File socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  require(::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return socket;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Node node;
  const size_t file_count = node.file_count();
  if (size >= 2 && data[0] == 0) {
    const ByteView question(reinterpret_cast<const std::byte*>(data + 2), size - 2);
    // A kind that is not served ends the connection. An error is an answer, too.
    using wire::PeerKind;
    constexpr PeerKind kServed[] = {PeerKind::kPing, PeerKind::kEnd, PeerKind::kReadMember,
                                    PeerKind::kStatus, PeerKind::kFlush};
    static_cast<void>(
        node.other->ask(comm::kFirstRank, kServed[data[1] % std::size(kServed)], question));
    require(!node.other->is_lost(comm::kFirstRank));
  } else {
    const File socket = connect_to(node.service->node());
    for (size_t at = 0; at < size;) {
      const size_t length = std::min<size_t>(data[at], size - at - 1);
      // The service may have closed the connection.
      if (::send(socket.fd(), data + at + 1, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      at += 1 + length;
    }
  }
  const auto client = store::ServiceClient::connect(node.service->node());
  require(client.ok());
  const auto entry = node.service->catalogue().find("two");
  require(entry && client->ask(1, *entry).ok());
  const auto reply = client->next(std::chrono::seconds(60));
  require(reply.ok() && reply->id == 1 && reply->os_error == 0);
  require(node.file_count() == file_count);
  return 0;
}
