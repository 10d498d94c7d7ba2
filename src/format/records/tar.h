// tar: WebDataset's shards. Members of a tar file whose names differ only after the first dot are
// the fields of one sample.
//
// Reads ustar, pax, and GNU's long names and large numbers. Writes ustar, with pax if a name or a
// length needs it. A sample spans from its first header to the end of its last member, so one read
// fetches all of it. Members without a dot, directories and links belong to no sample.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "format/format.h"

namespace millrace::format {

enum class TarKind { kFile, kDirectory, kSymbolicLink, kHardLink, kOther };

// The location of a member in a tar file.
struct TarMember {
  std::string path;
  std::string target;  // of a link
  TarKind kind = TarKind::kOther;
  bool is_file = false;
  uint32_t mode = 0;         // permission bits
  int64_t mtime_ns = 0;      // since 1970
  uint64_t begin_bytes = 0;  // offset of its first header
  uint64_t data_bytes = 0;   // offset of its bytes
  uint64_t size_bytes = 0;
  uint64_t end_bytes = 0;  // offset after the padding
};

// Iterates over the members of a tar file, or of a part of one.
class TarWalk {
 public:
  // Returns bytes of the archive. The view must stay valid until the next call.
  using Fetch = std::function<Result<ByteView>(uint64_t offset_bytes, size_t size_bytes)>;

  TarWalk(Fetch fetch, uint64_t archive_bytes)
      : fetch_(std::move(fetch)), archive_bytes_(archive_bytes) {}

  // None at the end of the archive.
  Result<std::optional<TarMember>> next();

  // Whether the walk ended at the empty block that marks the end of an archive. False if the bytes
  // ended without one.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  struct Extension {
    std::optional<std::string> path;
    std::optional<std::string> target;
    std::optional<uint64_t> size_bytes;
    std::optional<int64_t> mtime_ns;
  };

  Status read_extension(char kind, uint64_t size_bytes, Extension& out);
  Status read_pax(std::string_view text, Extension& out) const;
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

}  // namespace millrace::format
