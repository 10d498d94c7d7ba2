// Catalogue: which files a pack has, and where. docs/formats/pack.md.
//
// Read-only and mapped, so all processes of a node share one copy. open() checks all of it: the
// checksums, that entries form a tree with sorted names that cannot leave the root, and that every
// place is inside its partition. After that, nothing can fail. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/base.h"
#include "base/io/mapped_file.h"
#include "base/result.h"
#include "store/pack/tree.h"
#include "wire/catalogue_view.h"

namespace millrace::store {

inline constexpr std::string_view kCatalogueName = "catalogue";  // in the directory of a pack

// The path of an entry relative to the root.
std::string path_of(const wire::CatalogueView& catalogue, uint32_t index);

class Catalogue {
 public:
  // `path` is the file itself.
  static Result<Catalogue> open(const std::filesystem::path& path);
  // The same for bytes in memory.
  static Result<Catalogue> of_bytes(std::string bytes);

  Catalogue(Catalogue&&) noexcept = default;
  Catalogue& operator=(Catalogue&&) noexcept = default;

  uint32_t entry_count() const { return view_.entry_count(); }
  uint64_t file_count() const { return view_.header().file_count; }
  uint64_t content_bytes() const { return view_.header().content_bytes; }  // of all files
  std::string_view origin() const { return view_.origin(); }  // what was packed; may be gone

  // The entry of a path relative to the root; "" is the root. Links are not followed.
  std::optional<uint32_t> find(std::string_view path) const;

  // REQUIRES for all of these: index < entry_count()
  wire::CatalogueEntry entry(uint32_t index) const { return view_.entry(index); }
  std::string_view name(uint32_t index) const { return view_.name(entry(index)); }
  std::string path(uint32_t index) const { return path_of(view_, index); }
  std::string_view link_target(uint32_t index) const { return view_.link_target(entry(index)); }
  // Consecutive entries, sorted by name; none if it is not a directory.
  wire::CatalogueView::Children children(uint32_t index) const {
    return view_.children(entry(index));
  }

  uint32_t partition_count() const { return view_.partition_count(); }
  // REQUIRES: number < partition_count()
  wire::CataloguePartition partition(uint32_t number) const { return view_.partition(number); }
  std::string_view partition_name(uint32_t number) const;

  const wire::CatalogueView& view() const { return view_; }
  ByteView bytes() const;  // the file itself
  uint64_t size_bytes() const { return bytes().size(); }

 private:
  explicit Catalogue(std::variant<MappedFile, std::vector<std::byte>> storage)
      : storage_(std::move(storage)) {}
  Status check();

  std::variant<MappedFile, std::vector<std::byte>> storage_;
  wire::CatalogueView view_;
};

// A partition, for a new catalogue.
struct PartitionInfo {
  std::string name;  // of the file in the directory of the pack; for a tar file also a path
  wire::PartitionKind kind = wire::PartitionKind::kPack;
  uint64_t file_bytes = 0;
  int64_t mtime_ns = 0;  // of a tar file
};

struct CatalogueSource {
  const Tree& tree;
  const std::vector<PartitionInfo>& partitions;
  std::string_view origin;
  uint64_t identity = 0;
};

// The bytes of a new catalogue.
std::string encode_catalogue(const CatalogueSource& source);

// Checks the bytes of a catalogue, except that each path can be found; that takes a hash for each.
Status check_catalogue(ByteView bytes);

// Whether find() finds every entry. Part of `store verify`.
Status check_lookups(const Catalogue& catalogue);

}  // namespace millrace::store
