#include <fcntl.h>

#include <chrono>

#include "base/text.h"
#include "store/open_below.h"
#include "store/open_pieces.h"
#include "store/piece_source.h"
#include "store/service_client.h"

namespace millrace::store {
namespace {

constexpr int kPieceTries = 3;
constexpr std::chrono::milliseconds kServicePatience{wire::kStoreDeadlineMs};

class NodePieces final : public PieceSource {
 public:
  NodePieces(const Catalogue& catalogue, NodeStatus node, File tree)
      : catalogue_(catalogue),
        node_(std::move(node)),
        tree_(std::move(tree)),
        files_(catalogue, [this](uint32_t index) { return open(index); }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    return files_.read(index, offset_bytes, size_bytes);
  }

 private:
  Result<File> open(uint32_t index) const {
    const std::string path = catalogue_.path(index);
    auto made = open_below(tree_, path, O_RDONLY | O_NOFOLLOW);
    // The service may remove a file before we open it, for one that a loader needs.
    for (int i = 0; i < kPieceTries && !made.ok() && made.error().code() == Errc::kNotFound; ++i) {
      const Status asked = ask(index);
      made =
          asked.ok() ? open_below(tree_, path, O_RDONLY | O_NOFOLLOW) : Result<File>(asked.error());
    }
    if (!made.ok()) return std::move(made).error().within(printable(path));
    return made;
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
  OpenPieces files_;
};

}  // namespace

Result<std::unique_ptr<PieceSource>> make_node_pieces(const Catalogue& catalogue,
                                                      const NodeStatus& node) {
  ASSIGN_OR_RETURN(File tree, open_directory((node.path / wire::kStoreTreeDirectory).string()));
  return std::unique_ptr<PieceSource>(
      std::make_unique<NodePieces>(catalogue, node, std::move(tree)));
}

}  // namespace millrace::store
