// ShardTransfer: writes, reads and copies the files of a checkpoint through one small buffer.
//
// A file of any size needs only this memory. Writes and reads have the size of the buffer, so that
// checkpoint.buffer_size is also the size of the transfers that storage sees. With `odirect` they
// bypass the page cache; a file system that refuses O_DIRECT is an error, not a silent fallback.
// Used by one thread at a time. Errors begin with the path.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"
#include "bench/checkpoint/shard_bytes.h"
#include "io/aligned_memory.h"

namespace millrace::bench {

enum class Fsync : bool { kNo, kYes };

struct TransferOptions {
  uint64_t buffer_bytes = uint64_t{16} << 20;  // rounded up to whole blocks
  bool odirect = false;
  bool drops_cache = false;  // of a file before it is read
  bool verifies = true;      // what is read; else only its length
};

// Sums over the files so far.
struct TransferCounts {
  uint64_t file_count = 0;
  uint64_t size_bytes = 0;  // written, read or copied
  uint64_t fsync_count = 0;
  uint64_t cached_bytes = 0;  // of the files read: in the page cache when opened
};

class ShardTransfer {
 public:
  explicit ShardTransfer(const TransferOptions& options);

  // Creates the file, which must not exist. If it fails, the file is removed.
  Status write(const std::filesystem::path& path, const ShardBytes& bytes, Fsync fsync);

  // Reads the whole file and compares it with `bytes`.
  Status read(const std::filesystem::path& path, const ShardBytes& bytes);

  // Between two file systems, the kernel copies if it can. Within one, bytes are read and written:
  // the kernel might only share the blocks, which is not the I/O of a flush.
  Status copy(const std::filesystem::path& from, const std::filesystem::path& to, Fsync fsync);

  // Counts since the last call.
  TransferCounts take_counts();

  // May be called from any thread: the transfer in progress and all later ones fail soon.
  void cancel() { is_cancelled_.store(true); }

 private:
  using Source = std::function<Status(uint64_t offset_bytes, MutableByteView out)>;

  Status write_from(const std::filesystem::path& path, uint64_t size_bytes, const Source& source,
                    Fsync fsync);
  Status write_to(File file, const std::filesystem::path& path, uint64_t size_bytes,
                  const Source& source, Fsync fsync);
  Status write_open(int fd, uint64_t size_bytes, const Source& source);
  Status finish_file(int fd, Fsync wanted);
  Status read_open(int fd, uint64_t size_bytes, const ShardBytes& bytes);
  Status compare(const ShardBytes& bytes, uint64_t offset_bytes, ByteView found);
  Status copy_in_kernel(int from, int to, uint64_t size_bytes, uint64_t& done_bytes);
  Status check_cancelled() const;

  TransferOptions options_;
  io::AlignedMemory memory_;
  MutableByteView buffer_;
  TransferCounts counts_;
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace millrace::bench
