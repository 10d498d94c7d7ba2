// CatalogueView: finds paths in the mapped bytes of a catalogue.
//
// For the programs of other people as well: it allocates nothing, and needs no C++ runtime. All
// accesses stay inside the mapped bytes, and all loops end, even if the bytes are damaged. It does
// not compute checksums: whoever publishes a catalogue to other processes has checked it
// (store::Catalogue). Thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/catalogue.h"

namespace millrace::wire {

inline constexpr uint32_t kNoEntry = 0xffff'ffff;
inline constexpr uint32_t kRootEntry = 0;

// The last 1 to 7 bytes of a path as a number, without a loop: a copy of unknown length is a call.
inline uint64_t last_word(const char* bytes, size_t count) {
  if (count < 4) {
    const auto byte = [&](size_t at) {
      return uint64_t{static_cast<unsigned char>(bytes[at])} << (8 * at);
    };
    return byte(0) | byte(count / 2) | byte(count - 1);
  }
  uint32_t first = 0;
  uint32_t last = 0;
  std::memcpy(&first, bytes, 4);
  std::memcpy(&last, bytes + count - 4, 4);
  return first | uint64_t{last} << (8 * (count - 4));  // they overlap in equal bits
}

// The hash of a path relative to the root, such as "train/7.jpg"; that of the root is "".
// Eight bytes at a time through a 64 x 64 bit product: about 10 ns for a usual path.
inline uint64_t path_hash(std::string_view path) {
  __extension__ using uint128 = unsigned __int128;
  const auto fold = [](uint64_t a, uint64_t b) {
    const uint128 product = static_cast<uint128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = 0x9e3779b97f4a7c15 ^ path.size();
  const char* at = path.data();
  size_t left = path.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = fold(hash ^ word, 0xd6e8feb86659fd93);
  }
  if (left > 0) hash = fold(hash ^ last_word(at, left), 0xd6e8feb86659fd93);
  return fold(hash ^ 0xa0761d6478bd642f, 0xe7037ed1a0b428db);
}

// The number that stat() shows. Not 0, which programs take for a deleted file.
constexpr uint64_t inode_of(uint32_t index) { return uint64_t{index} + 1; }

// st_mode: the kind and the permission bits.
constexpr uint32_t stat_mode(const CatalogueEntry& entry) {
  constexpr uint32_t kTypes[] = {0, 0100000, 0040000, 0120000};
  return kTypes[static_cast<uint8_t>(entry.kind) & 3] | (entry.mode & 07777);
}

class CatalogueView {
 public:
  CatalogueView() = default;

  // Checks magic, version and lengths. Returns nullptr, or what is wrong.
  const char* open(const void* bytes, uint64_t size_bytes) {
    *this = {};
    if (size_bytes < sizeof(CatalogueHeader)) return "it is shorter than a header";
    CatalogueHeader header;
    std::memcpy(&header, bytes, sizeof(header));
    if (header.magic != kCatalogueMagic) return "it does not begin like a catalogue";
    if (header.version != kCatalogueVersion) return "it has a version that this build cannot read";
    if (header.entry_count == 0 || header.entry_count > kEntryMax) {
      return "its number of entries is not possible";
    }
    if (header.slot_count <= header.entry_count || header.slot_count > uint64_t{1} << 33 ||
        (header.slot_count & (header.slot_count - 1)) != 0) {
      return "the size of its hash table is not possible";
    }
    const uint64_t entries_end = sizeof(header) + header.entry_count * sizeof(CatalogueEntry);
    const uint64_t slots_end = entries_end + header.slot_count * sizeof(CatalogueSlot);
    const uint64_t names = slots_end + header.partition_count * sizeof(CataloguePartition);
    if (names > size_bytes || header.names_bytes != size_bytes - names) {
      return "its length does not match its header";
    }
    if (header.origin_offset > header.names_bytes ||
        header.origin_bytes > header.names_bytes - header.origin_offset) {
      return "its origin is outside of the names";
    }
    const auto* start = static_cast<const unsigned char*>(bytes);
    header_ = header;
    entries_ = start + sizeof(header);
    slots_ = start + entries_end;
    partitions_ = start + slots_end;
    names_ = reinterpret_cast<const char*>(start + names);
    return nullptr;
  }

  const CatalogueHeader& header() const { return header_; }
  uint32_t entry_count() const { return static_cast<uint32_t>(header_.entry_count); }
  uint32_t partition_count() const { return header_.partition_count; }

  // REQUIRES: index < entry_count()
  CatalogueEntry entry(uint32_t index) const {
    CatalogueEntry entry;
    std::memcpy(&entry, entries_ + uint64_t{index} * sizeof(entry), sizeof(entry));
    return entry;
  }

  // REQUIRES: number < partition_count()
  CataloguePartition partition(uint32_t number) const {
    CataloguePartition partition;
    std::memcpy(&partition, partitions_ + uint64_t{number} * sizeof(partition), sizeof(partition));
    return partition;
  }

  // REQUIRES: slot < header().slot_count
  CatalogueSlot slot(uint64_t at) const {
    CatalogueSlot slot;
    std::memcpy(&slot, slots_ + at * sizeof(slot), sizeof(slot));
    return slot;
  }

  // A piece of the names; empty if it is outside of them.
  std::string_view text(uint64_t offset_bytes, uint64_t size_bytes) const {
    if (offset_bytes > header_.names_bytes || size_bytes > header_.names_bytes - offset_bytes) {
      return {};
    }
    return {names_ + offset_bytes, static_cast<size_t>(size_bytes)};
  }
  std::string_view name(const CatalogueEntry& entry) const {
    return text(entry.name_offset, entry.name_bytes);
  }
  // Empty unless it is a link.
  std::string_view link_target(const CatalogueEntry& entry) const {
    if (entry.kind != EntryKind::kLink) return {};
    return text(entry.offset_bytes, entry.size_bytes);
  }
  std::string_view origin() const { return text(header_.origin_offset, header_.origin_bytes); }

  // The children of a directory, for readdir: entries [first, first + count).
  struct Children {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  Children children(const CatalogueEntry& entry) const {
    if (entry.kind != EntryKind::kDirectory || entry.offset_bytes > header_.entry_count ||
        entry.size_bytes > header_.entry_count - entry.offset_bytes) {
      return {};
    }
    return {static_cast<uint32_t>(entry.offset_bytes), static_cast<uint32_t>(entry.size_bytes)};
  }

  // The entry of a path relative to the root, such as "train/7.jpg"; "" is the root. The path has
  // no empty component, "." or "..", and no slash at its ends; symbolic links are not followed.
  // kNoEntry if there is none.
  uint32_t find(std::string_view path) const {
    if (header_.entry_count == 0) return kNoEntry;
    if (path.empty()) return kRootEntry;
    const uint64_t hash = path_hash(path);
    const uint64_t mask = header_.slot_count - 1;
    const auto tag = static_cast<uint32_t>(hash >> 32);
    uint64_t at = hash & mask;
    for (uint64_t tries = 0; tries < header_.slot_count; ++tries, at = (at + 1) & mask) {
      const CatalogueSlot found = slot(at);
      if (found.index_next == 0) return kNoEntry;
      if (found.tag != tag || found.index_next > header_.entry_count) continue;
      if (has_path(found.index_next - 1, path)) return found.index_next - 1;
    }
    return kNoEntry;
  }

  // The entry that a path has, if it has one, judging by its hash alone. To be confirmed by
  // has_path(), which looks at memory that nobody may have used for a while: the caller has
  // something to do until it arrives. kNoEntry if there is none.
  uint32_t guess(std::string_view path) const {
    if (header_.entry_count == 0) return kNoEntry;
    const uint64_t hash = path_hash(path);
    const uint64_t mask = header_.slot_count - 1;
    uint64_t at = hash & mask;
    for (uint64_t tries = 0; tries < header_.slot_count; ++tries, at = (at + 1) & mask) {
      const CatalogueSlot found = slot(at);
      if (found.index_next == 0) return kNoEntry;
      if (found.tag != static_cast<uint32_t>(hash >> 32)) continue;
      if (found.index_next > header_.entry_count) continue;
      __builtin_prefetch(entries_ + uint64_t{found.index_next - 1} * sizeof(CatalogueEntry));
      return found.index_next - 1;
    }
    return kNoEntry;
  }

  // Whether the names from the entry up to the root are `path`. Each step takes a part of the path,
  // so it ends even if parents form a cycle.
  bool has_path(uint32_t index, std::string_view path) const {
    while (index != kRootEntry) {
      if (index >= header_.entry_count) return false;
      const CatalogueEntry at = entry(index);
      const std::string_view own = name(at);
      if (own.empty() || own.size() > path.size()) return false;
      // Not substr(), which can throw and so needs a C++ runtime.
      if (std::memcmp(path.data() + path.size() - own.size(), own.data(), own.size()) != 0) {
        return false;
      }
      path.remove_suffix(own.size());
      if (path.empty()) return at.parent == kRootEntry;
      if (path.back() != '/') return false;
      path.remove_suffix(1);
      index = at.parent;
    }
    return false;
  }

 private:
  CatalogueHeader header_ = {};
  const unsigned char* entries_ = nullptr;
  const unsigned char* slots_ = nullptr;
  const unsigned char* partitions_ = nullptr;
  const char* names_ = nullptr;
};

}  // namespace millrace::wire
