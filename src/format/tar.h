// tar: WebDataset's shards: the members of a tar file whose names differ after the first dot are
// the fields of one sample.
//
// Reads ustar, pax and GNU's long names and large numbers; writes ustar, with pax where a name or a
// length needs it. A sample is the stretch from its first header to the end of its last member, so
// one read brings it whole. Members without a dot, directories and links belong to no sample.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "format/format.h"

namespace millrace::format {

// A member of a tar file, where it lies.
struct TarMember {
  std::string path;
  bool is_file = false;
  uint64_t begin_bytes = 0;  // of the headers before it
  uint64_t data_bytes = 0;   // where its bytes begin
  uint64_t size_bytes = 0;
  uint64_t end_bytes = 0;  // after the padding
};

// Goes through the members of a tar file, or of a stretch of one.
class TarWalk {
 public:
  // Bytes of the archive; the view is used before the next call.
  using Fetch = std::function<Result<ByteView>(uint64_t offset_bytes, size_t size_bytes)>;

  TarWalk(Fetch fetch, uint64_t archive_bytes)
      : fetch_(std::move(fetch)), archive_bytes_(archive_bytes) {}

  // Nothing at the end of the archive.
  Result<std::optional<TarMember>> next();

  // Whether the walk ended at the empty block that ends an archive, and not where its bytes do.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  struct Extension {
    std::optional<std::string> path;
    std::optional<uint64_t> size_bytes;
  };

  Status read_extension(char kind, uint64_t size_bytes, Extension& out);
  Result<TarMember> member(uint64_t begin_bytes, ByteView block, const Extension& extension);

  Fetch fetch_;
  uint64_t archive_bytes_;
  uint64_t at_ = 0;
  bool has_end_mark_ = false;
};

// WebDataset's names: "a/b.seg.png" is the field "seg.png" of the sample "a/b".
struct MemberName {
  std::string_view key;
  std::string_view field;
};
std::optional<MemberName> split_member_name(std::string_view path);

std::unique_ptr<Format> make_tar(const FormatOptions& options);

}  // namespace millrace::format
