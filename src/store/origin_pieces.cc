#include <fcntl.h>

#include <algorithm>
#include <atomic>

#include "base/shared_cache.h"
#include "base/text.h"
#include "store/member_source.h"
#include "store/open_below.h"
#include "store/piece_source.h"

namespace millrace::store {
namespace {

constexpr uint64_t kOpenMax = 256;

struct OriginalFile {
  File file;
  uint64_t memory_bytes() const { return 1; }  // the cache counts descriptors
};

class OriginPieces final : public PieceSource {
 public:
  OriginPieces(std::unique_ptr<PieceSource> first, OriginPiecesOptions options, File directory,
               std::unique_ptr<MemberSource> members)
      : first_(std::move(first)),
        options_(std::move(options)),
        directory_(std::move(directory)),
        members_(std::move(members)),
        files_(kOpenMax, [this](uint64_t key) { return open(static_cast<uint32_t>(key)); }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    auto piece = first_->read(index, offset_bytes, size_bytes);
    if (piece.ok()) return piece;
    auto opened = files_.get(index);
    if (!opened.ok()) {
      return fail(piece.error().code(), "{}; and at the origin: {}", piece.error().message(),
                  opened.error().message());
    }
    const bool is_full = piece.error().code() == Errc::kExhausted;  // then it is meant so
    if (!is_full && !is_told_.exchange(true)) {
      options_.log(fmt::format("{}; it is read from {}, and so are others that fail",
                               piece.error().message(), printable(options_.origin.string())));
    }
    return piece_of_file(*std::move(opened), index, offset_bytes, size_bytes);
  }

 private:
  Piece piece_of_file(std::shared_ptr<const OriginalFile> opened, uint32_t index,
                      uint64_t offset_bytes, size_t size_bytes) const {
    const uint64_t file_bytes = options_.catalogue.entry(index).size_bytes;
    Piece piece;
    if (offset_bytes >= file_bytes) return piece;
    piece.fd = opened->file.fd();
    piece.offset_bytes = offset_bytes;
    piece.size_bytes =
        static_cast<size_t>(std::min<uint64_t>(size_bytes, file_bytes - offset_bytes));
    piece.owner = std::move(opened);
    return piece;
  }

  Result<OriginalFile> open(uint32_t index) const {
    BlockCodec codec;
    RETURN_IF_ERROR(members_->read(index, codec, [](ByteView) { return Status(); }));
    ASSIGN_OR_RETURN(File file,
                     open_below(directory_, options_.catalogue.path(index), O_RDONLY | O_NOFOLLOW));
    return OriginalFile{std::move(file)};
  }

  const std::unique_ptr<PieceSource> first_;
  const OriginPiecesOptions options_;
  const File directory_;
  const std::unique_ptr<MemberSource> members_;
  std::atomic<bool> is_told_ = false;
  SharedCache<OriginalFile> files_;
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
