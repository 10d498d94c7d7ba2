// ChunkGroups: groups the chunks of a process into blocks of at most kTraceBlockEventsMax events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trace/record/recording.h"
#include "wire/trace_file.h"

namespace millrace::trace {

struct ChunkGroup {
  size_t first = 0;
  size_t count = 0;
};

// A chunk has at most as many events as slots, so a group always fits into a block.
inline std::vector<ChunkGroup> group_chunks(const std::vector<ChunkPlace>& chunks) {
  std::vector<ChunkGroup> groups;
  size_t slots = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    slots += chunks[i].slot_count;
    if (groups.empty() || slots > wire::kTraceBlockEventsMax) {
      groups.push_back({.first = i, .count = 0});
      slots = chunks[i].slot_count;
    }
    ++groups.back().count;
  }
  return groups;
}

}  // namespace millrace::trace
