// OpenPieces: ranges of files that stay open, for the piece sources that read ordinary files.
//
// At most 256 files are open; those used last stay. Thread-safe.
#pragma once

#include <functional>

#include "base/file.h"
#include "base/shared_cache.h"
#include "store/piece_source.h"

namespace millrace::store {

class OpenPieces {
 public:
  using Open = std::function<Result<File>(uint32_t index)>;

  // The catalogue must live longer.
  OpenPieces(const Catalogue& catalogue, Open open);

  // As PieceSource::read(). Opens the file unless it is open or the range is beyond its end.
  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes);

 private:
  struct OpenFile {
    File file;
    uint64_t memory_bytes() const { return 1; }  // the cache counts descriptors
  };

  const Catalogue& catalogue_;
  SharedCache<OpenFile> files_;
};

}  // namespace millrace::store
