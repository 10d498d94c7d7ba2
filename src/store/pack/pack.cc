#include "store/pack/pack.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/pack/open_below.h"
#include "store/pack/partition.h"
#include "store/pack/rebuild.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using wire::CatalogueEntry;
using wire::CataloguePartition;
using wire::PartitionKind;

Status check_tar(const fs::path& path, const CataloguePartition& partition) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail_os(errno, "cannot read its status");
  const int64_t mtime_ns = ns_of(status.st_mtim);
  if (static_cast<uint64_t>(status.st_size) == partition.file_bytes &&
      mtime_ns == partition.mtime_ns) {
    return {};
  }
  return fail(Errc::kCorrupt, "the tar file has changed since it was catalogued; pack it again");
}

}  // namespace

Result<PackReader> PackReader::open(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return open_partition(path);
  if (!fs::exists(path / kCatalogueName, error)) {
    const bool is_there = fs::is_directory(path, error);
    return fail(Errc::kNotFound, "{}: {}", printable(path.string()),
                is_there ? "has no catalogue: it is not a pack, or packing was not completed. Run "
                           "`millrace store pack` again"
                         : "no such pack");
  }
  ASSIGN_OR_RETURN(Catalogue catalogue, Catalogue::open(path / kCatalogueName));
  PackReader reader(std::move(catalogue));
  reader.directory_ = path;
  for (uint32_t i = 0; i < reader.catalogue().partition_count(); ++i) {
    reader.partitions_.push_back(reader.map_partition(i, reader.partition_path(i)));
  }
  return reader;
}

Result<PackReader> PackReader::open_partition(const fs::path& path) {
  ASSIGN_OR_RETURN(std::string bytes, catalogue_of_partition(path));
  ASSIGN_OR_RETURN(Catalogue catalogue,
                   Catalogue::of_bytes(std::move(bytes)).within(printable(path.string())));
  PackReader reader(std::move(catalogue));
  reader.directory_ = path.parent_path();
  reader.partitions_.push_back(reader.map_partition(0, reader.partition_path(0)));
  return reader;
}

fs::path PackReader::partition_path(uint32_t number) const {
  return directory_ / catalogue_->partition_name(number);
}

Result<MappedFile> PackReader::map_partition(uint32_t number, const fs::path& path) const {
  return map_partition_file(path, catalogue_->partition(number),
                            catalogue_->view().header().identity);
}

Result<MappedFile> map_partition_file(const fs::path& path, const CataloguePartition& partition,
                                      uint64_t identity) {
  const std::string shown = printable(path.string());
  if (partition.kind == PartitionKind::kTar) {
    RETURN_IF_ERROR(check_tar(path, partition).within(shown));
  } else {
    ASSIGN_OR_RETURN(const Partition opened, Partition::open(path));
    if (opened.header().identity != identity) {
      return fail(Errc::kCorrupt, "{}: belongs to another pack than the catalogue; copy both again",
                  shown);
    }
  }
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  if (file.bytes().size() == partition.file_bytes) return file;
  return fail(Errc::kCorrupt, "{}: has {} bytes, but {} are in the catalogue; copy it again", shown,
              file.bytes().size(), partition.file_bytes);
}

Result<ByteView> PackReader::packed(uint32_t index) const {
  const CatalogueEntry entry = catalogue_->entry(index);
  if (entry.kind != wire::EntryKind::kFile) {
    return fail(Errc::kInvalidArgument, "'{}' is not a file", printable(catalogue_->path(index)));
  }
  const Result<MappedFile>& partition = partitions_[entry.partition];
  if (!partition.ok()) return partition.error();
  // The catalogue has been checked against its own lengths, and the file against the catalogue.
  return partition->bytes().subspan(static_cast<size_t>(entry.offset_bytes),
                                    static_cast<size_t>(entry.packed_bytes));
}

Status PackReader::read_blocks(uint32_t index, BlockCodec& codec, const EachBlock& each) const {
  ASSIGN_OR_RETURN(const ByteView bytes, packed(index));
  return decode_blocks(index, bytes, codec, each);
}

Status PackReader::decode_blocks(uint32_t index, ByteView packed, BlockCodec& codec,
                                 const EachBlock& each) const {
  const CatalogueEntry entry = catalogue_->entry(index);
  uint32_t found = 0;
  Status decoded = codec.decode_blocks({entry.codec, entry.shuffle}, packed, entry.size_bytes,
                                       [&](ByteView block) {
                                         found = crc32c(block, found);
                                         return each(block);
                                       });
  if (!decoded.ok()) return std::move(decoded).within(describe_member(*catalogue_, index));
  return compare_checksum(index, found);
}

Status PackReader::compare_checksum(uint32_t index, uint32_t found) const {
  const uint32_t wanted = catalogue_->entry(index).crc32c;
  if (found == wanted) return {};
  return fail(Errc::kCorrupt,
              "{}: the checksum is {:08x}, but must be {:08x}. Copy the partition again, or pack "
              "again",
              describe_member(*catalogue_, index), found, wanted);
}

std::string describe_member(const Catalogue& catalogue, uint32_t index) {
  const CatalogueEntry entry = catalogue.entry(index);
  return fmt::format("'{}' in {} at byte {}", printable(catalogue.path(index)),
                     printable(catalogue.partition_name(entry.partition)), entry.offset_bytes);
}

}  // namespace millrace::store
