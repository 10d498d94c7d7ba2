#include <fcntl.h>

#include <algorithm>

#include "base/crc32c.h"
#include "base/text.h"
#include "store/member_source.h"
#include "store/open_below.h"

namespace millrace::store {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

class OriginMembers final : public MemberSource {
 public:
  OriginMembers(const Catalogue& catalogue, std::string name, File directory)
      : catalogue_(catalogue), name_(std::move(name)), directory_(std::move(directory)) {}

  bool has(uint32_t) const override { return true; }

  Status read(uint32_t index, BlockCodec&,
              const std::function<Status(ByteView block)>& each) override {
    return read_checked(index, each)
        .within(fmt::format("'{}' in {}", printable(catalogue_.path(index)), name_));
  }

 private:
  Status read_checked(uint32_t index, const std::function<Status(ByteView block)>& each) const {
    const wire::CatalogueEntry entry = catalogue_.entry(index);
    ASSIGN_OR_RETURN(const File file,
                     open_below(directory_, catalogue_.path(index), O_RDONLY | O_NOFOLLOW));
    ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
    if (size_bytes != entry.size_bytes) {
      return fail(Errc::kCorrupt, "has {} bytes, but {} were packed; pack again", size_bytes,
                  entry.size_bytes);
    }
    std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(size_bytes, kPieceBytes)));
    uint32_t found = 0;
    for (uint64_t at = 0; at < size_bytes; at += piece.size()) {
      const auto part = MutableByteView(piece).first(
          static_cast<size_t>(std::min<uint64_t>(piece.size(), size_bytes - at)));
      RETURN_IF_ERROR(file.read_exactly_at(at, part));
      found = crc32c(part, found);
      RETURN_IF_ERROR(each(part));
    }
    if (found == entry.crc32c) return {};
    return fail(Errc::kCorrupt,
                "has changed since it was packed: the checksum is {:08x}, not "
                "{:08x}; pack again",
                found, entry.crc32c);
  }

  const Catalogue& catalogue_;
  const std::string name_;
  const File directory_;
};

}  // namespace

Result<std::unique_ptr<MemberSource>> make_origin_members(const Catalogue& catalogue,
                                                          const std::filesystem::path& origin) {
  ASSIGN_OR_RETURN(File directory, open_directory(origin.string()));
  return std::unique_ptr<MemberSource>(
      std::make_unique<OriginMembers>(catalogue, printable(origin.string()), std::move(directory)));
}

}  // namespace millrace::store
