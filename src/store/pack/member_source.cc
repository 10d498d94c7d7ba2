#include "store/pack/member_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/buffer/durable_file.h"
#include "store/pack/open_below.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::PeerReadMember;

// Blocks are not longer in our own partitions either. A piece fits into a message.
constexpr uint64_t kMemberPieceBytes = 1 << 20;
static_assert(kMemberPieceBytes <= wire::kPeerMessageBytes);

class PeerMembers {
 public:
  explicit PeerMembers(const PeerMembersOptions& options) : options_(options) {}

  bool has(uint32_t index) const {
    const uint32_t partition = catalogue().entry(index).partition;
    return !options_.placement.is_everywhere(partition) && holder(index) != options_.peers.own();
  }

  Status read(uint32_t index, BlockCodec& codec, const EachBlock& each) const {
    const Rank whom = holder(index);
    const CatalogueEntry entry = catalogue().entry(index);
    Status status = entry.packed_bytes <= kMemberPieceBytes ? read_short(index, whom, codec, each)
                    : entry.codec == wire::PackCodec::kRaw  ? read_raw(index, whom, each)
                                                            : read_long(index, whom, codec, each);
    if (status.ok()) return status;
    const Errc code = options_.peers.is_lost(whom) ? Errc::kTimeout : status.error().code();
    return Error(code, std::move(status).error().message())
        .within(describe_member(catalogue(), index));
  }

 private:
  const Catalogue& catalogue() const { return options_.reader.catalogue(); }

  Rank holder(uint32_t index) const {
    return options_.placement.holder(catalogue().entry(index).partition, options_.replica);
  }

  Status read_short(uint32_t index, Rank whom, BlockCodec& codec, const EachBlock& each) const {
    return ask(index, whom, [&](uint64_t, ByteView bytes) {
      return options_.reader.decode_blocks(index, bytes, codec, each);
    });
  }

  // A raw file of any length, without keeping it.
  Status read_raw(uint32_t index, Rank whom, const EachBlock& each) const {
    uint32_t found = 0;
    RETURN_IF_ERROR(ask(index, whom, [&](uint64_t, ByteView bytes) {
      found = crc32c(bytes, found);
      return each(bytes);
    }));
    const uint32_t wanted = catalogue().entry(index).crc32c;
    if (found == wanted) return {};
    return fail(Errc::kCorrupt, "the checksum is {:08x}, but must be {:08x}", found, wanted);
  }

  // A compressed one is kept: the table of its blocks is at the end.
  Status read_long(uint32_t index, Rank whom, BlockCodec& codec, const EachBlock& each) const {
    std::vector<std::byte> packed(static_cast<size_t>(catalogue().entry(index).packed_bytes));
    RETURN_IF_ERROR(ask(index, whom, [&](uint64_t at, ByteView bytes) -> Status {
      std::memcpy(packed.data() + at, bytes.data(), bytes.size());
      return {};
    }));
    return options_.reader.decode_blocks(index, packed, codec, each);
  }

  // Calls `take` with all packed bytes, in pieces and in order.
  Status ask(uint32_t index, Rank whom,
             const std::function<Status(uint64_t at, ByteView bytes)>& take) const {
    const uint64_t size_bytes = catalogue().entry(index).packed_bytes;
    PeerReadMember question{.identity = catalogue().view().header().identity,
                            .entry = index,
                            .offset_bytes = 0,
                            .size_bytes = 0};
    const auto piece_at = [&](uint64_t number) {
      question.offset_bytes = number * kMemberPieceBytes;
      question.size_bytes = std::min(kMemberPieceBytes, size_bytes - question.offset_bytes);
    };
    const auto take_piece = [&](uint64_t number, ByteView bytes) -> Status {
      const uint64_t at = number * kMemberPieceBytes;
      if (bytes.size() == std::min(kMemberPieceBytes, size_bytes - at)) return take(at, bytes);
      return fail(Errc::kCorrupt, "it sent {} bytes at byte {} of {}", bytes.size(), at,
                  size_bytes);
    };
    return options_.peers.ask_all(
        whom, wire::PeerKind::kReadMember,
        {.count = std::max<uint64_t>(1, (size_bytes + kMemberPieceBytes - 1) / kMemberPieceBytes),
         .question =
             [&](uint64_t number) {
               piece_at(number);
               return std::as_bytes(std::span(&question, 1));
             },
         .take = take_piece});
  }

  const PeerMembersOptions options_;
};

Status read_original(const Catalogue& catalogue, const File& directory, uint32_t index,
                     const EachBlock& each) {
  const wire::CatalogueEntry entry = catalogue.entry(index);
  ASSIGN_OR_RETURN(const File file,
                   open_below(directory, catalogue.path(index), O_RDONLY | O_NOFOLLOW));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
  if (size_bytes != entry.size_bytes) {
    return fail(Errc::kCorrupt, "has {} bytes, but {} were packed; pack again", size_bytes,
                entry.size_bytes);
  }
  uint32_t found = 0;
  RETURN_IF_ERROR(for_blocks(file, size_bytes, kMemberPieceBytes, [&](uint64_t, ByteView block) {
    found = crc32c(block, found);
    return each(block);
  }));
  if (found == entry.crc32c) return {};
  return fail(Errc::kCorrupt,
              "has changed since it was packed: the checksum is {:08x}, not "
              "{:08x}; pack again",
              found, entry.crc32c);
}

}  // namespace

MemberSource make_pack_members(const PackReader& reader, ReadAhead* ahead) {
  const auto partition_of = [&reader](uint32_t index) {
    return reader.catalogue().entry(index).partition;
  };
  return {.has = [=, &reader](
                     uint32_t index) { return reader.partition_file(partition_of(index)).ok(); },
          .read =
              [=, &reader](uint32_t index, BlockCodec& codec, const EachBlock& each) {
                if (ahead != nullptr) ahead->note(partition_of(index));
                return reader.read_blocks(index, codec, each);
              }};
}

MemberSource make_held_members(const PackReader& reader, const HeldPartitions& held) {
  return {.has =
              [&](uint32_t index) {
                const uint32_t partition = reader.catalogue().entry(index).partition;
                return held.holds(partition) && reader.partition_file(partition).ok();
              },
          .read = [&](uint32_t index, BlockCodec& codec, const EachBlock& each) -> Status {
            ASSIGN_OR_RETURN(const ByteView packed, held.packed(index));
            return reader.decode_blocks(index, packed, codec, each);
          }};
}

MemberSource make_peer_members(const PeerMembersOptions& options) {
  const PeerMembers members(options);
  return {.has = [=](uint32_t index) { return members.has(index); },
          .read = [=](uint32_t index, BlockCodec& codec,
                      const EachBlock& each) { return members.read(index, codec, each); }};
}

Result<MemberSource> make_origin_members(const Catalogue& catalogue,
                                         const std::filesystem::path& origin) {
  ASSIGN_OR_RETURN(File opened, open_directory(origin.string()));
  // Shared by the copies of the source.
  const auto directory = std::make_shared<const File>(std::move(opened));
  return MemberSource{.has = [](uint32_t) { return true; },
                      .read =
                          [=, &catalogue](uint32_t index, BlockCodec&, const EachBlock& each) {
                            return read_original(catalogue, *directory, index, each)
                                .within(fmt::format("'{}' in {}", printable(catalogue.path(index)),
                                                    printable(origin.string())));
                          }};
}

Result<PeerAnswer> answer_member(const PackReader& reader, const HeldPartitions& held,
                                 ByteView question) {
  const Catalogue& catalogue = reader.catalogue();
  ByteReader bytes(question);
  ASSIGN_OR_RETURN(const auto asked, bytes.read<PeerReadMember>());
  if (!bytes.at_end() || asked.identity != catalogue.view().header().identity ||
      asked.entry >= catalogue.entry_count()) {
    return fail(Errc::kInvalidArgument,
                "it has another pack; start all services with the same one");
  }
  ASSIGN_OR_RETURN(const ByteView packed, held.packed(static_cast<uint32_t>(asked.entry)));
  if (asked.offset_bytes > packed.size() || asked.size_bytes > packed.size() - asked.offset_bytes ||
      asked.size_bytes > wire::kPeerMessageBytes) {
    return fail(Errc::kInvalidArgument, "{} bytes at byte {} are not in a file of {}",
                asked.size_bytes, asked.offset_bytes, packed.size());
  }
  return PeerAnswer{.bytes = {},
                    .view = packed.subspan(static_cast<size_t>(asked.offset_bytes),
                                           static_cast<size_t>(asked.size_bytes))};
}

}  // namespace millrace::store
