// Mappings: which files are mapped where, so that munmap, msync and madvise can be attributed to
// files, and how much of a mapping was used.
//
// Reads through a mapping are not calls. All we can know is which pages of the mapping are in the
// process's page table when it ends. That is an upper bound, because the kernel also maps
// neighbouring pages. It is recorded as the event `mapped`: size is the size of the mapping, result
// the bytes present.
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

// The file mapping in which this range begins. False if there is none.
bool find_mapping(uint64_t begin, uint64_t size, MappedRange* found);

// Call before the range is unmapped: records how much of it was used, and forgets it.
void end_mapping(uint64_t begin, uint64_t size);

// Call when the mapping that begins here has moved.
void forget_mapping(uint64_t begin);

// Call when the process ends: records how much of every mapping was used.
void record_live_mappings();

}  // namespace millrace::trace
