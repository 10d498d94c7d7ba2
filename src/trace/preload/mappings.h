// Mappings: which files are mapped where, so that munmap, msync and madvise can be told by file,
// and how much of a mapping was used.
//
// Reads through a mapping are not calls. What can be known is which pages the process has in its
// page table when the mapping ends: an upper bound, because the kernel maps neighbours of a page
// along with it. It is recorded as the event `mapped`: size is the mapping's, result the bytes
// present.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/trace_record.h"

namespace millrace::trace {

struct MappedRange {
  uint64_t begin;
  uint64_t size;
  uint64_t offset;  // in the file
  wire::NameId file;
};

void add_mapping(const MappedRange& range);

// The file mapping that this range begins in; false where there is none.
bool find_mapping(uint64_t begin, uint64_t size, MappedRange* found);

// The range is about to be unmapped: records what was used of it, and forgets it.
void end_mapping(uint64_t begin, uint64_t size);

// The mapping that begins here has moved.
void forget_mapping(uint64_t begin);

// The process ends: records what was used of every mapping.
void record_live_mappings();

}  // namespace millrace::trace
