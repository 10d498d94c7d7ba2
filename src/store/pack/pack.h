// PackReader: reads the files of a pack.
//
// Partitions are mapped. One that is missing or damaged does not prevent reading the others: a node
// may have only some. Reading a member checks its checksum. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/base.h"
#include "base/io/mapped_file.h"
#include "base/result.h"
#include "store/pack/catalogue.h"
#include "store/pack/codec.h"

namespace millrace::store {

class PackReader {
 public:
  // The directory of a pack; or one partition file, whose members then are all there is.
  static Result<PackReader> open(const std::filesystem::path& path);

  const Catalogue& catalogue() const { return *catalogue_; }

  // The bytes of a file, decompressed, in blocks of at most 1 MiB. If the checksum is wrong, it
  // fails after the last block. Each thread has its own codec.
  Status read_blocks(uint32_t index, BlockCodec& codec, const EachBlock& each) const;

  // The bytes of a file as they are stored, valid as long as the reader.
  Result<ByteView> packed(uint32_t index) const;

  // Fails unless `found` is the checksum of the file's bytes.
  Status compare_checksum(uint32_t index, uint32_t found) const;

  // The mapped file of a partition, or why it is not there.
  const Result<MappedFile>& partition_file(uint32_t number) const { return partitions_[number]; }

  // Maps a copy of a partition, after the same checks as the partition itself.
  Result<MappedFile> map_partition(uint32_t number, const std::filesystem::path& path) const;

  // The bytes of a file as `packed` has them, in blocks as read_blocks() gives them. `packed` may
  // come from elsewhere.
  Status decode_blocks(uint32_t index, ByteView packed, BlockCodec& codec,
                       const EachBlock& each) const;

  std::filesystem::path partition_path(uint32_t number) const;

 private:
  explicit PackReader(Catalogue catalogue) : catalogue_(std::move(catalogue)) {}
  static Result<PackReader> open_partition(const std::filesystem::path& path);

  std::optional<Catalogue> catalogue_;
  std::filesystem::path directory_;
  std::vector<Result<MappedFile>> partitions_;
};

// Maps the file of a partition. Fails if it is not the one that the catalogue describes.
Result<MappedFile> map_partition_file(const std::filesystem::path& path,
                                      const wire::CataloguePartition& partition, uint64_t identity);

// "train/7.jpg in part-00002.pack at byte 128": for messages.
std::string describe_member(const Catalogue& catalogue, uint32_t index);

}  // namespace millrace::store
