#include "store/pack/catalogue.h"

#include <bit>
#include <cstring>

#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "store/pack/codec.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::CatalogueHeader;
using wire::CataloguePartition;
using wire::CatalogueSlot;
using wire::CatalogueView;
using wire::EntryKind;
using wire::PartitionKind;

uint32_t header_checksum(const CatalogueHeader& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(CatalogueHeader, crc32c)));
}

template <typename T>
std::string_view raw_text(const std::vector<T>& values) {
  return text_of(std::as_bytes(std::span(values)));
}

// Places for all entries except the root. At most three quarters of them are used.
std::vector<CatalogueSlot> make_slots(const Tree& tree) {
  const uint64_t count = std::bit_ceil(tree.entries.size() * 4 / 3 + 1);
  std::vector<CatalogueSlot> slots(count);
  std::string path;
  for (uint32_t i = 1; i < tree.entries.size(); ++i) {
    // Siblings are consecutive, so most paths differ from the one before in the name only.
    if (i > 1 && tree.entries[i].parent == tree.entries[i - 1].parent) {
      path.resize(path.size() - tree.entries[i - 1].name_bytes);
      path += tree.name(i);
    } else {
      path = tree.path(i);
    }
    const uint64_t hash = wire::path_hash(path);
    uint64_t at = hash & (count - 1);
    while (slots[at].index_next != 0) at = (at + 1) & (count - 1);
    slots[at] = {.tag = static_cast<uint32_t>(hash >> 32), .index_next = i + 1};
  }
  return slots;
}

Status check_partition_entry(const CatalogueView& view, uint32_t number) {
  const CataloguePartition partition = view.partition(number);
  const std::string_view name = view.text(partition.name_offset, partition.name_bytes);
  const bool is_tar = partition.kind == PartitionKind::kTar;
  if (!is_tar && partition.kind != PartitionKind::kPack &&
      partition.kind != PartitionKind::kBroadcast) {
    return fail(Errc::kCorrupt, "its kind ({}) is unknown", static_cast<unsigned>(partition.kind));
  }
  if (is_tar && !name.empty() && name.find('\0') == std::string_view::npos) return {};
  return check_name(name);
}

// The parts of a catalogue, checked against each other.
class CatalogueCheck {
 public:
  explicit CatalogueCheck(const CatalogueView& view) : view_(view) {}

  Status run() {
    for (uint32_t i = 0; i < view_.partition_count(); ++i) {
      RETURN_IF_ERROR(check_partition_entry(view_, i).within(fmt::format("partition {}", i)));
    }
    RETURN_IF_ERROR(check_root());
    for (uint32_t i = 0; i < view_.entry_count(); ++i) {
      const CatalogueEntry entry = view_.entry(i);
      RETURN_IF_ERROR(check_entry(i, entry).within(fmt::format("entry {}", i)));
      previous_ = entry;
    }
    if (next_child_ != view_.entry_count()) {
      return fail(Errc::kCorrupt, "entry {} belongs to no directory", next_child_);
    }
    const CatalogueHeader& header = view_.header();
    if (files_ != header.file_count || content_bytes_ != header.content_bytes) {
      return fail(Errc::kCorrupt, "it has {} files of {} bytes, but claims {} of {}", files_,
                  content_bytes_, header.file_count, header.content_bytes);
    }
    return check_slots();
  }

 private:
  Status check_root() const {
    const CatalogueEntry root = view_.entry(wire::kRootEntry);
    if (root.kind == EntryKind::kDirectory && root.parent == 0 && root.name_bytes == 0) return {};
    return fail(Errc::kCorrupt, "entry 0 is not a root directory");
  }

  Status check_entry(uint32_t index, const CatalogueEntry& entry) {
    if (entry.mode > 07777 || (entry.flags & ~wire::kEntryBroadcast) != 0 ||
        entry.reserved[0] != 0 || entry.reserved[1] != 0 || entry.reserved[2] != 0) {
      return fail(Errc::kCorrupt, "its mode ({:o}) or flags ({}) are not possible", entry.mode,
                  entry.flags);
    }
    if (index != wire::kRootEntry) RETURN_IF_ERROR(check_place_in_tree(index, entry));
    switch (entry.kind) {
      case EntryKind::kFile:
        return check_file(entry);
      case EntryKind::kDirectory:
        return check_directory(entry);
      case EntryKind::kLink:
        return check_link(entry);
    }
    return fail(Errc::kCorrupt, "its kind ({}) is unknown", static_cast<unsigned>(entry.kind));
  }

  Status check_place_in_tree(uint32_t index, const CatalogueEntry& entry) const {
    RETURN_IF_ERROR(check_name(view_.name(entry)));
    if (entry.parent >= index) {
      return fail(Errc::kCorrupt, "its parent is entry {}, which comes later", entry.parent);
    }
    const CatalogueView::Children siblings = view_.children(view_.entry(entry.parent));
    if (index < siblings.first || index - siblings.first >= siblings.count) {
      return fail(Errc::kCorrupt, "it is not among the children of its parent, entry {}",
                  entry.parent);
    }
    if (index == siblings.first || view_.name(previous_) < view_.name(entry)) return {};
    return fail(Errc::kCorrupt, "'{}' is not in the order of the names",
                printable(view_.name(entry)));
  }

  // Directories list their children one after the other, so no entry has two parents.
  Status check_directory(const CatalogueEntry& entry) {
    const bool fits = entry.size_bytes <= view_.entry_count() - next_child_;
    if (entry.offset_bytes != next_child_ || !fits) {
      return fail(Errc::kCorrupt, "its {} children start at entry {}, not at {}", entry.size_bytes,
                  entry.offset_bytes, next_child_);
    }
    next_child_ += static_cast<uint32_t>(entry.size_bytes);
    return {};
  }

  Status check_file(const CatalogueEntry& entry) {
    if (entry.partition >= view_.partition_count()) {
      return fail(Errc::kCorrupt, "it is in partition {}, but there are {}", entry.partition,
                  view_.partition_count());
    }
    const uint64_t end = view_.partition(entry.partition).file_bytes;
    if (entry.offset_bytes > end || entry.packed_bytes > end - entry.offset_bytes) {
      return fail(Errc::kCorrupt, "it has {} bytes at byte {} of partition {}, which has {}",
                  entry.packed_bytes, entry.offset_bytes, entry.partition, end);
    }
    RETURN_IF_ERROR(
        check_encoding({entry.codec, entry.shuffle}, entry.packed_bytes, entry.size_bytes));
    ++files_;
    content_bytes_ += entry.size_bytes;
    return {};
  }

  Status check_link(const CatalogueEntry& entry) const {
    const std::string_view target = view_.link_target(entry);
    if (target.empty() || target.find('\0') != std::string_view::npos) {
      return fail(Errc::kCorrupt, "its target is empty, or outside of the names");
    }
    if (crc32c(bytes_of(target)) == entry.crc32c) return {};
    return fail(Errc::kCorrupt, "the checksum of its target is wrong");
  }

  // Every entry but the root has one place, so a search always meets a free place and ends.
  Status check_slots() const {
    uint64_t used = 0;
    for (uint64_t i = 0; i < view_.header().slot_count; ++i) {
      const CatalogueSlot slot = view_.slot(i);
      if (slot.index_next == 0) continue;
      ++used;
      if (slot.index_next > 1 && slot.index_next <= view_.entry_count()) continue;
      return fail(Errc::kCorrupt, "place {} of its hash table refers to entry {}", i,
                  slot.index_next - 1);
    }
    if (used + 1 == view_.entry_count()) return {};
    return fail(Errc::kCorrupt, "its hash table has {} places in use, but there are {} entries",
                used, view_.entry_count());
  }

  const CatalogueView& view_;
  CatalogueEntry previous_{};
  uint32_t next_child_ = 1;
  uint64_t files_ = 0;
  uint64_t content_bytes_ = 0;
};

Status open_view(ByteView bytes, CatalogueView& view) {
  if (const char* problem = view.open(bytes.data(), bytes.size()); problem != nullptr) {
    return fail(Errc::kCorrupt, "{}; copy it again, or rebuild it: millrace store pack PARTITIONS",
                problem);
  }
  return {};
}

}  // namespace

std::string encode_catalogue(const CatalogueSource& source) {
  const Tree& tree = source.tree;
  CatalogueHeader header{};
  header.magic = wire::kCatalogueMagic;
  header.version = wire::kCatalogueVersion;
  header.partition_count = static_cast<uint32_t>(source.partitions.size());
  header.identity = source.identity;
  header.entry_count = tree.entries.size();
  for (const CatalogueEntry& entry : tree.entries) {
    if (entry.kind != EntryKind::kFile) continue;
    ++header.file_count;
    header.content_bytes += entry.size_bytes;
  }
  std::string more_names;
  std::vector<CataloguePartition> partitions;
  for (const PartitionInfo& info : source.partitions) {
    partitions.push_back({.file_bytes = info.file_bytes,
                          .name_offset = tree.names.size() + more_names.size(),
                          .mtime_ns = info.mtime_ns,
                          .name_bytes = static_cast<uint32_t>(info.name.size()),
                          .kind = info.kind});
    more_names += info.name;
  }
  header.origin_offset = tree.names.size() + more_names.size();
  header.origin_bytes = static_cast<uint32_t>(source.origin.size());
  more_names += source.origin;
  header.names_bytes = tree.names.size() + more_names.size();
  const std::vector<CatalogueSlot> slots = make_slots(tree);
  header.slot_count = slots.size();

  std::string out;
  out.reserve(sizeof(header) + raw_text(tree.entries).size() + raw_text(slots).size() +
              raw_text(partitions).size() + header.names_bytes);
  out.resize(sizeof(header));
  out += raw_text(tree.entries);
  out += raw_text(slots);
  out += raw_text(partitions);
  out += tree.names;
  out += more_names;
  header.body_crc32c = crc32c(bytes_of(out).subspan(sizeof(header)));
  header.crc32c = header_checksum(header);
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

Status check_catalogue(ByteView bytes) {
  CatalogueView view;
  RETURN_IF_ERROR(open_view(bytes, view));
  if (header_checksum(view.header()) != view.header().crc32c) {
    return fail(Errc::kCorrupt, "the checksum of its header is wrong; copy it again");
  }
  if (crc32c(bytes.subspan(sizeof(CatalogueHeader))) != view.header().body_crc32c) {
    return fail(Errc::kCorrupt,
                "its checksum is wrong; copy it again, or rebuild it: millrace store pack "
                "PARTITIONS");
  }
  return CatalogueCheck(view).run();
}

Status check_lookups(const Catalogue& catalogue) {
  for (uint32_t i = 0; i < catalogue.entry_count(); ++i) {
    const std::string path = catalogue.path(i);
    if (catalogue.find(path) == i) continue;
    return fail(Errc::kCorrupt, "the hash table does not find '{}'; rebuild the catalogue",
                printable(path));
  }
  return {};
}

ByteView Catalogue::bytes() const {
  if (const auto* file = std::get_if<MappedFile>(&storage_)) return file->bytes();
  return std::get<std::vector<std::byte>>(storage_);
}

Status Catalogue::check() {
  RETURN_IF_ERROR(check_catalogue(bytes()));
  return open_view(bytes(), view_);
}

Result<Catalogue> Catalogue::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Catalogue catalogue(std::move(file));
  RETURN_IF_ERROR(catalogue.check().within(printable(path.string())));
  return catalogue;
}

Result<Catalogue> Catalogue::of_bytes(std::string bytes) {
  const ByteView view = bytes_of(bytes);
  Catalogue catalogue(std::vector<std::byte>(view.begin(), view.end()));
  RETURN_IF_ERROR(catalogue.check());
  return catalogue;
}

std::optional<uint32_t> Catalogue::find(std::string_view path) const {
  const uint32_t index = view_.find(path);
  return index == wire::kNoEntry ? std::nullopt : std::optional(index);
}

std::string path_of(const CatalogueView& catalogue, uint32_t index) {
  std::string path;
  for (uint32_t at = index; at != wire::kRootEntry; at = catalogue.entry(at).parent) {
    if (!path.empty()) path.insert(0, 1, '/');
    path.insert(0, catalogue.name(catalogue.entry(at)));
  }
  return path;
}

std::string_view Catalogue::partition_name(uint32_t number) const {
  const wire::CataloguePartition found = partition(number);
  return view_.text(found.name_offset, found.name_bytes);
}

}  // namespace millrace::store
