// hdf5_chunk: undoes the filters of a chunk (deflate, LZF, shuffle, checksum), and keeps decoded
// chunks.
#pragma once

#include <cstdint>
#include <list>

#include "base/base.h"
#include "base/result.h"
#include "data/buffer.h"
#include "format/hdf5/layout.h"

namespace millrace::format {

// Decodes the bytes of a chunk in the file. `spare` is memory to reuse.
// REQUIRES: out has dataset.chunk_bytes() bytes.
Status decode_chunk(const Hdf5Dataset& dataset, const Hdf5Chunk& chunk, ByteView packed,
                    data::Buffer (&spare)[2], MutableByteView out);

// Repeats one element. REQUIRES: out is a whole number of elements.
void fill_with(ByteView element, MutableByteView out);

// Which chunk, of all open sources of the process.
struct ChunkKey {
  uint64_t source = 0;
  uint64_t file = 0;
  size_t dataset = 0;
  uint64_t chunk = 0;

  bool operator==(const ChunkKey&) const = default;
};

// The chunks that a thread decoded last, so that reading the rows of a chunk one by one decodes it
// once. Bounded: at most 64 chunks, and 32 MiB unless a single chunk is larger. Single-threaded.
class ChunkCache {
 public:
  static ChunkCache& of_this_thread();

  // Empty if it is not there. Valid until add() is called.
  ByteView find(const ChunkKey& key);
  // Room for a chunk that is about to be decoded. forget() it if that fails.
  MutableByteView add(const ChunkKey& key, size_t size_bytes);
  void forget(const ChunkKey& key);

  data::Buffer packed;    // for the bytes in the file
  data::Buffer spare[2];  // for decode_chunk()

 private:
  struct Entry {
    ChunkKey key;
    size_t size_bytes = 0;
    data::Buffer bytes;
  };

  std::list<Entry> entries_;  // most recently used first
  size_t held_bytes_ = 0;
};

}  // namespace millrace::format
