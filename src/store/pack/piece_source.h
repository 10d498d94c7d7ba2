// PieceSource: the bytes of a pack's files at any place, for `store mount`.
//
// A file is compared with its checksum before the first of its bytes is given, and only then. So
// the first read of a long file takes as long as reading all of it. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/base.h"
#include "base/result.h"
#include "store/pack/pack.h"
#include "store/service/node_files.h"

namespace millrace::store {

// Either bytes in memory, or a range of an open file.
struct Piece {
  ByteView bytes;
  int fd = -1;  // -1: `bytes` are what was asked for
  uint64_t offset_bytes = 0;
  size_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // of the bytes or of the descriptor, as long as the piece
};

class PieceSource {
 public:
  virtual ~PieceSource() = default;

  // Shorter only where the file ends. REQUIRES: `index` is a file of the catalogue
  virtual Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) = 0;
};

// From the partitions. Raw files are given as they are mapped, without a copy; of compressed ones,
// the blocks that were used last are kept. A file with a wrong checksum fails each time. The reader
// must live longer.
std::unique_ptr<PieceSource> make_pack_pieces(const PackReader& reader);

// From the tree of a node, whose service is asked for files that are not there yet. The catalogue
// must live longer.
std::unique_ptr<PieceSource> make_node_pieces(const Catalogue& catalogue,
                                              std::shared_ptr<const NodeFiles> files);

// What `first` does not have is read from the directory that was packed, with one line in the log,
// unless it only had no room.
// Without that directory, returns `first`. The catalogue must live longer.
struct OriginPiecesOptions {
  const Catalogue& catalogue;
  std::filesystem::path origin;
  std::function<void(const std::string& line)> log;
};
std::unique_ptr<PieceSource> add_origin(std::unique_ptr<PieceSource> first,
                                        OriginPiecesOptions options);

}  // namespace millrace::store
