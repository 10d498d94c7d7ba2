#include "store/open_pieces.h"

#include <algorithm>
#include <utility>

namespace millrace::store {
namespace {

constexpr uint64_t kOpenMax = 256;

}  // namespace

OpenPieces::OpenPieces(const Catalogue& catalogue, Open open)
    : catalogue_(catalogue),
      files_(kOpenMax, [open = std::move(open)](uint64_t index) -> Result<OpenFile> {
        ASSIGN_OR_RETURN(File file, open(static_cast<uint32_t>(index)));
        return OpenFile{std::move(file)};
      }) {}

Result<Piece> OpenPieces::read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) {
  const uint64_t file_bytes = catalogue_.entry(index).size_bytes;
  if (offset_bytes >= file_bytes) return Piece{};
  ASSIGN_OR_RETURN(auto opened, files_.get(index));
  Piece piece;
  piece.fd = opened->file.fd();
  piece.offset_bytes = offset_bytes;
  piece.size_bytes = static_cast<size_t>(std::min<uint64_t>(size_bytes, file_bytes - offset_bytes));
  piece.owner = std::move(opened);
  return piece;
}

}  // namespace millrace::store
