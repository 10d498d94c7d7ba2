// PartitionWriter: writes the files of one partition, on several threads.
//
// The work is cut into units of about 1 MiB: many small files, or a piece of a long one. Threads
// read and compress units at the same time, but get their place in the file in the order of the
// units. So the result depends only on the files, small files are written together in one call, and
// a thread never holds more than one unit.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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

class PartitionWriter {
 public:
  // Members start at `begin_bytes` of the file.
  PartitionWriter(PartitionWork work, const File& out, uint64_t begin_bytes);
  ~PartitionWriter();

  // Returns where the members end.
  Result<uint64_t> run(ThreadPool& pool);

 private:
  struct LongFile;
  struct Unit;
  struct Room;

  void cut_units();
  Status reserve() const;
  Status write_unit(size_t number);
  void begin_writeback();
  Status read_small(const Unit& unit, Room& room);
  Status read_piece(const Unit& unit, Room& room);
  Status take_place(size_t number, const Unit& unit, Room& room, uint64_t& place);
  uint64_t place_piece(const Unit& unit, Room& room);
  Status add_small(uint32_t index, Room& room);
  Status choose_encoding(uint32_t index, LongFile& file, const File& source, BlockCodec& codec);
  Result<File> open_source(uint32_t index) const;
  std::unique_ptr<Room> take_room();

  PartitionWork work_;
  const File& out_;
  std::vector<Unit> units_;
  std::mutex mutex_;
  std::condition_variable turn_;
  size_t next_unit_ = 0;          // guarded by mutex_: whose turn it is
  uint64_t end_bytes_ = 0;        // guarded by mutex_: where the next unit goes
  uint64_t writeback_bytes_ = 0;  // guarded by mutex_: the bytes before are on their way
  std::optional<Error> failure_;  // guarded by mutex_: the first one
  std::vector<std::unique_ptr<Room>> rooms_;  // guarded by mutex_: not in use
};

}  // namespace millrace::store
