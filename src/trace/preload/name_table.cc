#include "trace/preload/name_table.h"

#include <cstring>

#include "hook/syscall.h"
#include "trace/preload/file_access.h"

namespace millrace::trace {
namespace {

using wire::kNameIndexFirstSlots;
using wire::kNameProbes;
using wire::kNamesChunkBytes;
using wire::NameEntry;
using wire::NameId;

constexpr size_t slots_of_level(size_t level) { return kNameIndexFirstSlots << (2 * level); }

constexpr uint64_t offset_of_level(size_t level) {
  uint64_t offset = 0;
  for (size_t i = 0; i < level; ++i) offset += slots_of_level(i) * sizeof(uint64_t);
  return offset;
}

constexpr size_t entry_bytes(size_t length) { return (sizeof(NameEntry) + length + 1 + 7) / 8 * 8; }

}  // namespace

bool NameTable::open(const char* directory, Filter filter, int* error) {
  filter_ = filter;
  has_filter_ = filter != nullptr;
  if (std::strlen(directory) + 16 > sizeof(names_path_)) return false;
  stpcpy(stpcpy(names_path_, directory), "/names");
  stpcpy(stpcpy(index_path_, directory), "/names.index");
  void* first =
      map_file({.path = names_path_, .offset = 0, .size = kNamesChunkBytes, .create = true}, error);
  if (first == nullptr) return false;
  auto* header = static_cast<wire::NamesHeader*>(first);
  // The first process sets the end. The rest of the header is the same whoever writes it.
  header->version = wire::kRecordingVersion;
  uint64_t expected = 0;
  std::atomic_ref<uint64_t>(header->end)
      .compare_exchange_strong(expected, sizeof(wire::NamesHeader));
  std::atomic_ref<uint64_t>(header->magic).store(wire::kNamesMagic, std::memory_order_release);
  chunks_[0].store(static_cast<char*>(first), std::memory_order_release);
  return index_level(0) != nullptr;
}

NameTable::IndexSlot* NameTable::index_level(size_t level) {
  IndexSlot* slots = levels_[level].load(std::memory_order_acquire);
  if (__builtin_expect(slots != nullptr, 1)) return slots;
  int error = 0;
  const size_t size = slots_of_level(level) * sizeof(uint64_t);
  void* memory = map_file(
      {.path = index_path_, .offset = offset_of_level(level), .size = size, .create = true},
      &error);
  if (memory == nullptr) return nullptr;
  if (levels_[level].compare_exchange_strong(slots, static_cast<IndexSlot*>(memory))) {
    return static_cast<IndexSlot*>(memory);
  }
  hook::sys_munmap(memory, size);
  return slots;
}

char* NameTable::map_chunk(size_t number) {
  char* base = nullptr;
  int error = 0;
  void* memory = map_file(
      {.path = names_path_, .offset = number * kNamesChunkBytes, .size = kNamesChunkBytes}, &error);
  if (memory == nullptr) return nullptr;
  if (chunks_[number].compare_exchange_strong(base, static_cast<char*>(memory))) {
    return static_cast<char*>(memory);
  }
  hook::sys_munmap(memory, kNamesChunkBytes);
  return base;
}

inline bool NameTable::matches(uint64_t slot, std::string_view name, uint64_t hash) {
  if (slot >> 32 != hash >> 32) return false;
  const NameEntry* candidate = entry(NameId{static_cast<uint32_t>(slot)});
  return candidate != nullptr && candidate->length == name.size() &&
         std::memcmp(candidate + 1, name.data(), name.size()) == 0;
}

// Writes the entry to unused space, where nobody looks for it yet.
NameId NameTable::append(std::string_view name, uint64_t hash) {
  char* first = chunks_[0].load(std::memory_order_relaxed);
  std::atomic_ref<uint64_t> end(reinterpret_cast<wire::NamesHeader*>(first)->end);
  const size_t size = entry_bytes(name.size());
  uint64_t place = end.load(std::memory_order_relaxed);
  uint64_t begin;
  do {
    begin = place;
    const uint64_t room = kNamesChunkBytes - begin % kNamesChunkBytes;
    if (room < size) begin += room;
    if (chunk(begin / kNamesChunkBytes) == nullptr) return wire::kNoName;
  } while (!end.compare_exchange_weak(place, begin + size, std::memory_order_relaxed));

  const NameId id{static_cast<uint32_t>(begin / 8)};
  NameEntry* written = entry(id);
  written->length = static_cast<uint32_t>(name.size());
  written->hash = static_cast<uint32_t>(hash >> 32);
  written->flags = filter_ != nullptr && filter_(name) ? wire::kNameFiltered : 0;
  char* text = reinterpret_cast<char*>(written + 1);
  std::memcpy(text, name.data(), name.size());
  text[name.size()] = '\0';
  return id;
}

NameId NameTable::intern(std::string_view name) {
  name = name.substr(0, wire::kNameLengthMax);
  const uint64_t hash = wire::name_hash(name.data(), name.size());
  NameId id = wire::kNoName;
  for (size_t level = 0; level < wire::kNameIndexLevels; ++level) {
    IndexSlot* slots = index_level(level);
    if (slots == nullptr) break;
    // Aligned, so that a search reads two cache lines.
    const size_t first = (hash & (slots_of_level(level) - 1)) & ~(kNameProbes - 1);
    for (size_t probe = 0; probe < kNameProbes; ++probe) {
      IndexSlot& slot = slots[first + probe];
      uint64_t content = slot.load(std::memory_order_acquire);
      if (content == 0) {
        if (id == wire::kNoName) id = append(name, hash);
        if (id == wire::kNoName) return id;
        const uint64_t wanted = (hash >> 32) << 32 | static_cast<uint32_t>(id);
        if (slot.compare_exchange_strong(content, wanted, std::memory_order_acq_rel)) return id;
      }
      if (matches(content, name, hash)) return NameId{static_cast<uint32_t>(content)};
    }
  }
  return wire::kNoName;
}

NameId NameTable::find(std::string_view name) {
  if (name.size() > wire::kNameLengthMax) return wire::kNoName;
  const uint64_t hash = wire::name_hash(name.data(), name.size());
  for (size_t level = 0; level < wire::kNameIndexLevels; ++level) {
    const IndexSlot* slots = levels_[level].load(std::memory_order_acquire);
    if (slots == nullptr) break;
    const size_t first = (hash & (slots_of_level(level) - 1)) & ~(kNameProbes - 1);
    for (size_t probe = 0; probe < kNameProbes; ++probe) {
      const uint64_t content = slots[first + probe].load(std::memory_order_acquire);
      if (content == 0) return wire::kNoName;
      if (matches(content, name, hash)) return NameId{static_cast<uint32_t>(content)};
    }
  }
  return wire::kNoName;
}

std::string_view NameTable::text(NameId id) {
  if (id == wire::kNoName) return {};
  const NameEntry* found = entry(id);
  if (found == nullptr) return {};
  return {reinterpret_cast<const char*>(found + 1), found->length};
}

}  // namespace millrace::trace
