// write_members: writes the files of one partition, on several threads.
//
// The work is cut into units of about 1 MiB: many small files, or a piece of a long one. Threads
// read and compress units at the same time, but get their place in the file in the order of the
// units. So the result depends only on the files, small files are written together in one call, and
// a thread never holds more than one unit.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/concurrency/thread_pool.h"
#include "base/io/file.h"
#include "base/result.h"
#include "store/pack/codec.h"
#include "store/pack/tree.h"

namespace millrace::store {

struct PartitionWork {
  Tree& tree;                   // entries of the files get their place, codec and checksum
  std::vector<uint32_t> files;  // entries, in their order
  const File& source;           // the directory that is packed
  CodecChoice codec = CodecChoice::kAuto;
  const std::function<void(uint64_t bytes)>& on_packed;
};

// Members start at `begin_bytes` of `out`. Returns where they end.
Result<uint64_t> write_members(PartitionWork work, const File& out, uint64_t begin_bytes,
                               ThreadPool& pool);

}  // namespace millrace::store
