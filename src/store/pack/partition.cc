#include "store/pack/partition.h"

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/pack/codec.h"

namespace millrace::store {
namespace {

using wire::EntryKind;
using wire::PackFooter;
using wire::PackHeader;
using wire::PackRecord;

template <typename Struct>
uint32_t checksum_of(const Struct& fields) {
  return crc32c(std::as_bytes(std::span(&fields, 1)).first(offsetof(Struct, crc32c)));
}

Result<PackHeader> read_pack_header(ByteView bytes) {
  if (bytes.size() < sizeof(PackHeader) + sizeof(PackFooter)) {
    return fail(Errc::kCorrupt, "it has {} bytes, too few for a partition; pack it again",
                bytes.size());
  }
  ASSIGN_OR_RETURN(const PackHeader header, ByteReader(bytes).read<PackHeader>());
  if (header.magic != wire::kPackMagic) {
    return fail(Errc::kCorrupt, "it does not begin like a partition of a pack");
  }
  if (header.version != wire::kPackVersion) {
    return fail(Errc::kUnsupported,
                "it was written by version {}; this build reads version {}. Upgrade, or pack again",
                header.version, wire::kPackVersion);
  }
  if (header.crc32c != checksum_of(header)) {
    return fail(Errc::kCorrupt, "the checksum of its header is wrong; copy or pack it again");
  }
  return header;
}

Result<PackFooter> read_pack_footer(ByteView bytes, uint64_t identity) {
  const uint64_t at = bytes.size() - sizeof(PackFooter);
  ASSIGN_OR_RETURN(const PackFooter footer, ByteReader(bytes.subspan(at)).read<PackFooter>());
  if (footer.magic != wire::kPackEndMagic || footer.crc32c != checksum_of(footer)) {
    return fail(Errc::kCorrupt,
                "it does not end with a footer at byte {}: it was truncated; copy or pack it again",
                at);
  }
  if (footer.identity != identity || footer.file_bytes != bytes.size()) {
    return fail(Errc::kCorrupt, "its footer at byte {} is that of another file; copy it again", at);
  }
  if (footer.index_offset < sizeof(PackHeader) || footer.index_offset > at) {
    return fail(Errc::kCorrupt, "its index starts at byte {}, outside of the file",
                footer.index_offset);
  }
  return footer;
}

Status check_record(const IndexRecord& record, uint64_t members_end) {
  const PackRecord& fields = record.fields;
  RETURN_IF_ERROR(check_path(record.path));
  if (fields.kind < EntryKind::kFile || fields.kind > EntryKind::kLink || fields.mode > 07777 ||
      fields.reserved != 0 || (fields.flags & ~wire::kEntryBroadcast) != 0) {
    return fail(Errc::kCorrupt, "its kind ({}), mode ({:o}) or flags ({}) are not possible",
                static_cast<unsigned>(fields.kind), fields.mode, fields.flags);
  }
  const bool is_link = fields.kind == EntryKind::kLink;
  if (!record.path.empty() && is_link == record.target.empty()) {
    return fail(Errc::kCorrupt, "links have a target and others do not, but its has {} bytes",
                record.target.size());
  }
  if (fields.kind != EntryKind::kFile) return {};
  if (fields.offset_bytes < sizeof(PackHeader) || fields.offset_bytes > members_end ||
      fields.packed_bytes > members_end - fields.offset_bytes) {
    return fail(Errc::kCorrupt, "it claims {} bytes at byte {}, but the members end at {}",
                fields.packed_bytes, fields.offset_bytes, members_end);
  }
  return check_encoding({fields.codec, fields.shuffle}, fields.packed_bytes, fields.size_bytes);
}

}  // namespace

Status check_partition(ByteView bytes, const EachRecord& each) {
  ASSIGN_OR_RETURN(const PackHeader header, read_pack_header(bytes));
  ASSIGN_OR_RETURN(const PackFooter footer, read_pack_footer(bytes, header.identity));
  const size_t end = bytes.size() - sizeof(PackFooter);
  const ByteView index = bytes.subspan(static_cast<size_t>(footer.index_offset),
                                       end - static_cast<size_t>(footer.index_offset));
  if (crc32c(index) != footer.index_crc32c) {
    return fail(Errc::kCorrupt, "the checksum of its index at byte {} is wrong; copy it again",
                footer.index_offset);
  }
  ByteReader reader(index);
  for (uint64_t i = 0; i < footer.record_count; ++i) {
    const uint64_t at = footer.index_offset + reader.position();
    const auto place = [&] { return fmt::format("record {} at byte {}", i, at); };
    IndexRecord record;
    const auto parse = [&]() -> Status {
      ASSIGN_OR_RETURN(record.fields, reader.read<PackRecord>());
      ASSIGN_OR_RETURN(record.path, reader.take_text(record.fields.path_bytes));
      ASSIGN_OR_RETURN(record.target, reader.take_text(record.fields.target_bytes));
      return {};
    };
    RETURN_IF_ERROR(parse().within(place()));
    RETURN_IF_ERROR(
        check_record(record, footer.index_offset).within(printable(record.path)).within(place()));
    RETURN_IF_ERROR(each(record));
  }
  if (reader.at_end()) return {};
  return fail(Errc::kCorrupt, "{} bytes after its last record belong to nothing",
              reader.remaining());
}

Result<Partition> Partition::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Partition partition(std::move(file));
  const auto check = [&]() -> Status {
    ASSIGN_OR_RETURN(partition.header_, read_pack_header(partition.bytes()));
    RETURN_IF_ERROR(read_pack_footer(partition.bytes(), partition.header_.identity));
    return {};
  };
  RETURN_IF_ERROR(check().within(printable(path.string())));
  return partition;
}

PackHeader make_header(uint32_t number, uint32_t count, wire::PartitionKind kind,
                       uint64_t identity) {
  PackHeader header{};
  header.magic = wire::kPackMagic;
  header.version = wire::kPackVersion;
  header.number = number;
  header.identity = identity;
  header.kind = kind;
  header.partition_count = count;
  header.crc32c = checksum_of(header);
  return header;
}

void IndexWriter::add(uint32_t index, const wire::CatalogueEntry& entry, std::string_view path,
                      std::string_view target) {
  const bool is_file = entry.kind == EntryKind::kFile;
  const PackRecord record{.size_bytes = is_file ? entry.size_bytes : 0,
                          .offset_bytes = is_file ? entry.offset_bytes : 0,
                          .packed_bytes = entry.packed_bytes,
                          .mtime_ns = entry.mtime_ns,
                          .entry = index,
                          .mode = entry.mode,
                          .crc32c = entry.crc32c,
                          .path_bytes = static_cast<uint32_t>(path.size()),
                          .target_bytes = static_cast<uint32_t>(target.size()),
                          .kind = entry.kind,
                          .codec = entry.codec,
                          .shuffle = entry.shuffle,
                          .flags = entry.flags,
                          .reserved = 0};
  index_ += text_of(std::as_bytes(std::span(&record, 1)));
  index_ += path;
  index_ += target;
  ++count_;
}

std::string IndexWriter::finish(uint64_t identity, uint64_t end_bytes) && {
  PackFooter footer{};
  footer.magic = wire::kPackEndMagic;
  footer.identity = identity;
  footer.index_offset = end_bytes;
  footer.record_count = count_;
  footer.file_bytes = end_bytes + index_.size() + sizeof(footer);
  footer.index_crc32c = crc32c(bytes_of(index_));
  footer.crc32c = checksum_of(footer);
  index_ += text_of(std::as_bytes(std::span(&footer, 1)));
  return std::move(index_);
}

Member member_of(const IndexRecord& record, uint32_t partition) {
  const PackRecord& fields = record.fields;
  Member member{.path = std::string(record.path), .target = std::string(record.target)};
  wire::CatalogueEntry& entry = member.entry;
  entry.mtime_ns = fields.mtime_ns;
  entry.mode = fields.mode;
  entry.kind = fields.kind;
  if (fields.kind != EntryKind::kFile) return member;
  entry.size_bytes = fields.size_bytes;
  entry.offset_bytes = fields.offset_bytes;
  entry.packed_bytes = fields.packed_bytes;
  entry.partition = partition;
  entry.crc32c = fields.crc32c;
  entry.codec = fields.codec;
  entry.shuffle = fields.shuffle;
  entry.flags = fields.flags;
  return member;
}

}  // namespace millrace::store
