#include "store/pack/piece_source.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/concurrency/mutex.h"
#include "base/concurrency/shared_cache.h"
#include "base/hash/crc32c.h"
#include "base/io/file.h"
#include "base/text/text.h"
#include "store/pack/member_source.h"
#include "store/pack/open_below.h"

namespace millrace::store {
namespace {

using wire::kPackBlockBytes;

constexpr uint64_t kBlockCacheBytes = uint64_t{64} << 20;
constexpr uint64_t kTableCacheBytes = uint64_t{16} << 20;

struct DecodedBlock {
  std::vector<std::byte> bytes;
  uint64_t memory_bytes() const { return bytes.capacity() + sizeof(*this); }
};

// Where the blocks of a compressed file are.
struct BlockTable {
  std::vector<PackedBlock> blocks;
  uint64_t memory_bytes() const { return blocks.capacity() * sizeof(PackedBlock) + sizeof(*this); }
};

class PackPieces final : public PieceSource {
 public:
  explicit PackPieces(const PackReader& reader)
      : reader_(reader),
        checks_(reader.catalogue().entry_count()),
        tables_(kTableCacheBytes, [this](uint64_t key) { return make_table(key); }),
        blocks_(kBlockCacheBytes, [this](uint64_t key) { return make_block(key); }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    RETURN_IF_ERROR(check_once(index));
    const uint64_t file_bytes = reader_.catalogue().entry(index).size_bytes;
    if (offset_bytes >= file_bytes) return Piece{};
    const auto wanted =
        static_cast<size_t>(std::min<uint64_t>(size_bytes, file_bytes - offset_bytes));
    if (!is_raw(index)) return decoded_piece(index, offset_bytes, wanted);
    ASSIGN_OR_RETURN(const ByteView bytes, reader_.packed(index));
    return Piece{.bytes = bytes.subspan(static_cast<size_t>(offset_bytes), wanted)};
  }

 private:
  enum class Check : uint8_t { kNotYet, kGood, kBad };

  // Several threads may read a long file at once: one checks it, and the others wait.
  Status check_once(uint32_t index) {
    if (checks_[index].load(std::memory_order_acquire) == Check::kGood) return {};
    const MutexLock lock(check_mutexes_[index % check_mutexes_.size()]);
    const Check before = checks_[index].load(std::memory_order_acquire);
    if (before == Check::kGood) return {};
    if (before == Check::kBad) {
      return fail(Errc::kCorrupt, "{} is damaged", describe_member(reader_.catalogue(), index));
    }
    Status checked = check(index);
    checks_[index].store(checked.ok() ? Check::kGood : Check::kBad, std::memory_order_release);
    return checked;
  }

  Status check(uint32_t index) {
    ASSIGN_OR_RETURN(const ByteView packed,
                     reader_.packed(index).within(describe_member(reader_.catalogue(), index)));
    if (is_raw(index)) return reader_.compare_checksum(index, crc32c(packed));
    ASSIGN_OR_RETURN(const auto table, tables_.get(index));
    uint32_t found = 0;
    for (uint64_t i = 0; i < table->blocks.size(); ++i) {
      ASSIGN_OR_RETURN(const auto block, blocks_.get(key_of(index, i)));
      found = crc32c(block->bytes, found);
    }
    return reader_.compare_checksum(index, found);
  }

  Result<Piece> decoded_piece(uint32_t index, uint64_t offset_bytes, size_t size_bytes) {
    const uint64_t first = offset_bytes / kPackBlockBytes;
    const auto at = static_cast<size_t>(offset_bytes % kPackBlockBytes);
    ASSIGN_OR_RETURN(auto block, blocks_.get(key_of(index, first)));
    Piece piece;
    if (at + size_bytes <= block->bytes.size()) {
      piece.bytes = ByteView(block->bytes).subspan(at, size_bytes);
      piece.owner = std::move(block);
      return piece;
    }
    // It is in several blocks. The kernel asks for aligned ranges, so this is rare.
    auto joined = std::make_shared<std::vector<std::byte>>();
    joined->reserve(size_bytes);
    joined->insert(joined->end(), block->bytes.begin() + static_cast<ptrdiff_t>(at),
                   block->bytes.end());
    for (uint64_t i = first + 1; joined->size() < size_bytes; ++i) {
      ASSIGN_OR_RETURN(block, blocks_.get(key_of(index, i)));
      const size_t count = std::min(size_bytes - joined->size(), block->bytes.size());
      joined->insert(joined->end(), block->bytes.begin(),
                     block->bytes.begin() + static_cast<ptrdiff_t>(count));
    }
    piece.bytes = *joined;
    piece.owner = std::move(joined);
    return piece;
  }

  bool is_raw(uint32_t index) const {
    return reader_.catalogue().entry(index).codec == wire::PackCodec::kRaw;
  }

  static uint64_t key_of(uint32_t index, uint64_t block) { return uint64_t{index} << 32 | block; }

  Result<BlockTable> make_table(uint64_t key) {
    const auto index = static_cast<uint32_t>(key);
    const wire::CatalogueEntry entry = reader_.catalogue().entry(index);
    ASSIGN_OR_RETURN(const ByteView packed, reader_.packed(index));
    BlockTable table;
    ASSIGN_OR_RETURN(table.blocks,
                     split_blocks({entry.codec, entry.shuffle}, packed, entry.size_bytes)
                         .within(describe_member(reader_.catalogue(), index)));
    return table;
  }

  Result<DecodedBlock> make_block(uint64_t key) {
    thread_local BlockCodec codec;
    const auto index = static_cast<uint32_t>(key >> 32);
    const wire::CatalogueEntry entry = reader_.catalogue().entry(index);
    ASSIGN_OR_RETURN(const auto table, tables_.get(index));
    const PackedBlock& packed = table->blocks[static_cast<uint32_t>(key)];
    DecodedBlock block;
    block.bytes.resize(packed.size_bytes);
    RETURN_IF_ERROR(codec.decode({entry.codec, entry.shuffle}, packed, block.bytes)
                        .within(describe_member(reader_.catalogue(), index)));
    return block;
  }

  const PackReader& reader_;
  std::vector<std::atomic<Check>> checks_;  // of each entry
  std::array<Mutex, 64> check_mutexes_;
  SharedCache<BlockTable> tables_;    // by entry
  SharedCache<DecodedBlock> blocks_;  // by key_of()
};

// Ranges of ordinary files. Those that were used last stay open.
class OpenPieces final : public PieceSource {
 public:
  using Open = std::function<Result<File>(uint32_t index)>;

  OpenPieces(const Catalogue& catalogue, Open open)
      : catalogue_(catalogue),
        files_(kOpenMax, [open = std::move(open)](uint64_t index) -> Result<OpenFile> {
          ASSIGN_OR_RETURN(File file, open(static_cast<uint32_t>(index)));
          return OpenFile{std::move(file)};
        }) {}

  Result<Piece> read(uint32_t index, uint64_t offset_bytes, size_t size_bytes) override {
    const uint64_t file_bytes = catalogue_.entry(index).size_bytes;
    if (offset_bytes >= file_bytes) return Piece{};
    ASSIGN_OR_RETURN(auto opened, files_.get(index));
    return Piece{.fd = opened->file.fd(),
                 .offset_bytes = offset_bytes,
                 .size_bytes =
                     static_cast<size_t>(std::min<uint64_t>(size_bytes, file_bytes - offset_bytes)),
                 .owner = std::move(opened)};
  }

 private:
  static constexpr uint64_t kOpenMax = 256;

  struct OpenFile {
    File file;
    uint64_t memory_bytes() const { return 1; }  // the cache counts descriptors
  };

  const Catalogue& catalogue_;
  SharedCache<OpenFile> files_;
};

class OriginPieces final : public PieceSource {
 public:
  OriginPieces(std::unique_ptr<PieceSource> first, OriginPiecesOptions options, File directory,
               MemberSource members)
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
    RETURN_IF_ERROR(members_.read(index, codec, [](ByteView) { return Status(); }));
    return open_below(directory_, options_.catalogue.path(index), O_RDONLY | O_NOFOLLOW);
  }

  const std::unique_ptr<PieceSource> first_;
  const OriginPiecesOptions options_;
  const File directory_;
  const MemberSource members_;
  std::atomic<bool> is_told_ = false;
  OpenPieces files_;
};

}  // namespace

std::unique_ptr<PieceSource> make_pack_pieces(const PackReader& reader) {
  return std::make_unique<PackPieces>(reader);
}

std::unique_ptr<PieceSource> make_node_pieces(const Catalogue& catalogue,
                                              std::shared_ptr<const NodeFiles> files) {
  return std::make_unique<OpenPieces>(
      catalogue, [&catalogue, files = std::move(files)](uint32_t index) {
        return files->open_in_tree(index).within(printable(catalogue.path(index)));
      });
}

std::unique_ptr<PieceSource> add_origin(std::unique_ptr<PieceSource> first,
                                        OriginPiecesOptions options) {
  auto directory = open_directory(options.origin.string());
  auto members = make_origin_members(options.catalogue, options.origin);
  if (!directory.ok() || !members.ok()) return first;
  return std::make_unique<OriginPieces>(std::move(first), std::move(options), *std::move(directory),
                                        *std::move(members));
}

}  // namespace millrace::store
