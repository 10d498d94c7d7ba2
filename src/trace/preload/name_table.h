// NameTable: one number for each path and text, the same in all processes of a session.
//
// The processes share it by mapping the session's files `names` and `names.index`
// (wire/trace_session.h). A forked child inherits it, and a path that a thousand workers open is
// stored once. Lock-free: a name is written to unused space, then published by one
// compare-and-swap. A process killed in between leaves unused bytes, never a broken table.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "wire/trace_session.h"

namespace millrace::trace {

class NameTable {
 public:
  // Decides whether a new name is filtered.
  using Filter = bool (*)(std::string_view name);

  // `directory` is the session's, absolute. `filter` is null if no file is filtered. False if the
  // table cannot be mapped.
  bool open(const char* directory, Filter filter, int* error);

  // The number of a name, which is added if new. kNoName if there is no space for it.
  wire::NameId intern(std::string_view name);

  // The number of a name that is already known, else kNoName.
  wire::NameId find(std::string_view name);

  std::string_view text(wire::NameId id);
  bool filtered(wire::NameId id) {
    if (!has_filter_ || id == wire::kNoName) return false;
    const wire::NameEntry* found = entry(id);
    return found != nullptr && (found->flags & wire::kNameFiltered) != 0;
  }

 private:
  static constexpr size_t kChunks = 32768;  // of kNamesChunkBytes: the range of a 32-bit NameId

  using IndexSlot = std::atomic<uint64_t>;

  IndexSlot* index_level(size_t level);
  char* map_chunk(size_t number);
  char* chunk(size_t number) {
    if (number >= kChunks) return nullptr;
    char* base = chunks_[number].load(std::memory_order_acquire);
    return __builtin_expect(base != nullptr, 1) ? base : map_chunk(number);
  }
  wire::NameEntry* entry(wire::NameId id) {
    const uint64_t place = uint64_t{static_cast<uint32_t>(id)} * 8;
    char* base = chunk(place / wire::kNamesChunkBytes);
    if (base == nullptr) return nullptr;
    return reinterpret_cast<wire::NameEntry*>(base + place % wire::kNamesChunkBytes);
  }
  wire::NameId append(std::string_view name, uint64_t hash);
  bool matches(uint64_t slot, std::string_view name, uint64_t hash);

  char names_path_[4096] = {};
  char index_path_[4096] = {};
  Filter filter_ = nullptr;
  bool has_filter_ = false;
  std::atomic<IndexSlot*> levels_[wire::kNameIndexLevels] = {};
  std::atomic<char*> chunks_[kChunks] = {};
};

}  // namespace millrace::trace
