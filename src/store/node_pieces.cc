#include <fcntl.h>

#include <algorithm>
#include <chrono>

#include "base/shared_cache.h"
#include "base/text.h"
#include "store/open_below.h"
#include "store/piece_source.h"
#include "store/service_client.h"

namespace millrace::store {
namespace {

constexpr uint64_t kOpenMax = 256;
constexpr int kPieceTries = 3;
constexpr std::chrono::milliseconds kServicePatience{wire::kStoreDeadlineMs};

struct OpenFile {
  File file;
  uint64_t memory_bytes() const { return 1; }  // the cache counts descriptors
};

class NodePieces final : public PieceSource {
 public:
  NodePieces(const Catalogue& catalogue, NodeStatus node, File tree)
      : catalogue_(catalogue),
        node_(std::move(node)),
        tree_(std::move(tree)),
        files_(kOpenMax, [this](uint64_t key) { return open(static_cast<uint32_t>(key)); }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    const uint64_t file_bytes = catalogue_.entry(index).size_bytes;
    if (offset_bytes >= file_bytes) return Piece{};
    ASSIGN_OR_RETURN(auto opened, files_.get(index));
    Piece piece;
    piece.fd = opened->file.fd();
    piece.offset_bytes = offset_bytes;
    piece.size_bytes =
        static_cast<size_t>(std::min<uint64_t>(size_bytes, file_bytes - offset_bytes));
    piece.owner = std::move(opened);
    return piece;
  }

 private:
  Result<OpenFile> open(uint32_t index) const {
    const std::string path = catalogue_.path(index);
    auto made = open_below(tree_, path, O_RDONLY | O_NOFOLLOW);
    // The service may remove a file before we open it, for one that a loader needs.
    for (int i = 0; i < kPieceTries && !made.ok() && made.error().code() == Errc::kNotFound; ++i) {
      const Status asked = ask(index);
      made =
          asked.ok() ? open_below(tree_, path, O_RDONLY | O_NOFOLLOW) : Result<File>(asked.error());
    }
    if (!made.ok()) return std::move(made).error().within(printable(path));
    return OpenFile{*std::move(made)};
  }

  // On return, the service has written the file into the tree.
  Status ask(uint32_t index) const {
    ASSIGN_OR_RETURN(const ServiceClient client, ServiceClient::connect(node_.path));
    RETURN_IF_ERROR(client.ask(index, index));
    ASSIGN_OR_RETURN(const ServiceClient::Reply reply, client.next(kServicePatience));
    if (reply.os_error == 0) return {};
    return fail_os(reply.os_error, "the store's service cannot make it");
  }

  const Catalogue& catalogue_;
  const NodeStatus node_;
  const File tree_;
  SharedCache<OpenFile> files_;
};

}  // namespace

Result<std::unique_ptr<PieceSource>> make_node_pieces(const Catalogue& catalogue,
                                                      const NodeStatus& node) {
  ASSIGN_OR_RETURN(File tree, open_directory((node.path / wire::kStoreTreeDirectory).string()));
  return std::unique_ptr<PieceSource>(
      std::make_unique<NodePieces>(catalogue, node, std::move(tree)));
}

}  // namespace millrace::store
