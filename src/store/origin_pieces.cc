#include <fcntl.h>

#include <atomic>

#include "base/text.h"
#include "store/member_source.h"
#include "store/open_below.h"
#include "store/open_pieces.h"
#include "store/piece_source.h"

namespace millrace::store {
namespace {

class OriginPieces final : public PieceSource {
 public:
  OriginPieces(std::unique_ptr<PieceSource> first, OriginPiecesOptions options, File directory,
               std::unique_ptr<MemberSource> members)
      : first_(std::move(first)),
        options_(std::move(options)),
        directory_(std::move(directory)),
        members_(std::move(members)),
        files_(options_.catalogue, [this](uint32_t index) { return open(index); }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    auto piece = first_->read(index, offset_bytes, size_bytes);
    if (piece.ok()) return piece;
    auto original = files_.read(index, offset_bytes, size_bytes);
    if (!original.ok()) {
      return fail(piece.error().code(), "{}; and at the origin: {}", piece.error().message(),
                  original.error().message());
    }
    const bool is_full = piece.error().code() == Errc::kExhausted;  // then it is meant so
    if (!is_full && !is_told_.exchange(true)) {
      options_.log(fmt::format("{}; it is read from {}, and so are others that fail",
                               piece.error().message(), printable(options_.origin.string())));
    }
    return original;
  }

 private:
  Result<File> open(uint32_t index) const {
    BlockCodec codec;
    RETURN_IF_ERROR(members_->read(index, codec, [](ByteView) { return Status(); }));
    return open_below(directory_, options_.catalogue.path(index), O_RDONLY | O_NOFOLLOW);
  }

  const std::unique_ptr<PieceSource> first_;
  const OriginPiecesOptions options_;
  const File directory_;
  const std::unique_ptr<MemberSource> members_;
  std::atomic<bool> is_told_ = false;
  OpenPieces files_;
};

}  // namespace

std::unique_ptr<PieceSource> add_origin(std::unique_ptr<PieceSource> first,
                                        OriginPiecesOptions options) {
  auto directory = open_directory(options.origin.string());
  auto members = make_origin_members(options.catalogue, options.origin);
  if (!directory.ok() || !members.ok()) return first;
  return std::make_unique<OriginPieces>(std::move(first), std::move(options), *std::move(directory),
                                        *std::move(members));
}

}  // namespace millrace::store
