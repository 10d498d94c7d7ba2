#include <cstring>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/member_source.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::PeerReadMember;

// Blocks are not longer in our own partitions either. A piece fits into a message.
constexpr uint64_t kMemberPieceBytes = 1 << 20;
static_assert(kMemberPieceBytes <= wire::kPeerMessageBytes);

class HeldMembers final : public MemberSource {
 public:
  HeldMembers(const PackReader& reader, const HeldPartitions& held)
      : reader_(reader), held_(held) {}

  bool has(uint32_t index) const override {
    const uint32_t partition = reader_.catalogue().entry(index).partition;
    return held_.holds(partition) && reader_.check_partition_file(partition).ok();
  }

  Status read(uint32_t index, BlockCodec& codec,
              const std::function<Status(ByteView block)>& each) override {
    ASSIGN_OR_RETURN(const ByteView packed, held_.packed(index));
    return reader_.decode_blocks(index, packed, codec, each);
  }

 private:
  const PackReader& reader_;
  const HeldPartitions& held_;
};

class PeerMembers final : public MemberSource {
 public:
  explicit PeerMembers(const PeerMembersOptions& options) : options_(options) {}

  bool has(uint32_t index) const override {
    const uint32_t partition = catalogue().entry(index).partition;
    return !options_.placement.is_everywhere(partition) && holder(index) != options_.peers.own();
  }

  Status read(uint32_t index, BlockCodec& codec,
              const std::function<Status(ByteView block)>& each) override {
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

  Status read_short(uint32_t index, Rank whom, BlockCodec& codec,
                    const std::function<Status(ByteView block)>& each) {
    return ask(index, whom, [&](uint64_t, ByteView bytes) {
      return options_.reader.decode_blocks(index, bytes, codec, each);
    });
  }

  // A raw file of any length, without keeping it.
  Status read_raw(uint32_t index, Rank whom, const std::function<Status(ByteView block)>& each) {
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
  Status read_long(uint32_t index, Rank whom, BlockCodec& codec,
                   const std::function<Status(ByteView block)>& each) {
    std::vector<std::byte> packed(static_cast<size_t>(catalogue().entry(index).packed_bytes));
    RETURN_IF_ERROR(ask(index, whom, [&](uint64_t at, ByteView bytes) -> Status {
      std::memcpy(packed.data() + at, bytes.data(), bytes.size());
      return {};
    }));
    return options_.reader.decode_blocks(index, packed, codec, each);
  }

  // Calls `take` with all packed bytes, in pieces and in order.
  Status ask(uint32_t index, Rank whom,
             const std::function<Status(uint64_t at, ByteView bytes)>& take) {
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

class CountedMembers final : public MemberSource {
 public:
  CountedMembers(std::unique_ptr<MemberSource> source, std::function<void(uint32_t index)> note)
      : source_(std::move(source)), note_(std::move(note)) {}

  bool has(uint32_t index) const override { return source_->has(index); }

  Status read(uint32_t index, BlockCodec& codec,
              const std::function<Status(ByteView block)>& each) override {
    RETURN_IF_ERROR(source_->read(index, codec, each));
    note_(index);
    return {};
  }

 private:
  const std::unique_ptr<MemberSource> source_;
  const std::function<void(uint32_t index)> note_;
};

}  // namespace

std::unique_ptr<MemberSource> make_held_members(const PackReader& reader,
                                                const HeldPartitions& held) {
  return std::make_unique<HeldMembers>(reader, held);
}

std::unique_ptr<MemberSource> make_peer_members(const PeerMembersOptions& options) {
  return std::make_unique<PeerMembers>(options);
}

std::unique_ptr<MemberSource> make_counted_members(std::unique_ptr<MemberSource> source,
                                                   std::function<void(uint32_t index)> note) {
  return std::make_unique<CountedMembers>(std::move(source), std::move(note));
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
