// Partition: one file of a pack, mapped. docs/formats/pack.md.
//
// open() checks the header and the footer, visit() the index, all with their checksums, and every
// record: names that cannot leave the root, places inside the file. The bytes of the members are
// checked when they are read. The file must not be truncated while it is mapped; packs are never
// changed after they have their name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/io/mapped_file.h"
#include "base/result.h"
#include "store/pack/tree.h"
#include "wire/pack_file.h"

namespace millrace::store {

// A record of the index. The views are valid as long as the partition is.
struct IndexRecord {
  wire::PackRecord fields;
  std::string_view path;
  std::string_view target;  // of a link; of the root: what was packed
};

// Whether the bytes are a whole partition; calls `each` for every record.
using EachRecord = std::function<Status(const IndexRecord& record)>;
Status check_partition(ByteView bytes, const EachRecord& each);

class Partition {
 public:
  // Checks header and footer.
  static Result<Partition> open(const std::filesystem::path& path);

  const wire::PackHeader& header() const { return header_; }
  ByteView bytes() const { return file_.bytes(); }

  // Checks the index and calls `each` for every record.
  Status visit(const EachRecord& each) const { return check_partition(file_.bytes(), each); }

 private:
  explicit Partition(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  wire::PackHeader header_{};
};

// The header of a partition, with its checksum.
wire::PackHeader make_header(uint32_t number, uint32_t count, wire::PartitionKind kind,
                             uint64_t identity);

// Collects the index of a new partition.
class IndexWriter {
 public:
  void add(uint32_t index, const wire::CatalogueEntry& entry, std::string_view path,
           std::string_view target);

  // The index and the footer, for a file whose members end at `end_bytes`.
  std::string finish(uint64_t identity, uint64_t end_bytes) &&;

 private:
  std::string index_;
  uint64_t count_ = 0;
};

// A member for tree_of().
Member member_of(const IndexRecord& record, uint32_t partition);

}  // namespace millrace::store
