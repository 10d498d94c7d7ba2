// BlockFile: writes a file from start to end in large blocks, with room for generated arrays.
//
// Arrays are generated straight into the block, so a file of any size takes no more memory than the
// block, and each byte is copied only by write(2). Without close() there is no complete file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/base.h"
#include "base/io/file.h"
#include "base/io/gzip.h"
#include "base/result.h"
#include "bench/generate/content.h"
#include "data/buffer.h"

namespace millrace::bench {

class BlockFile {
 public:
  // Fits into the second-level cache of most CPUs, so that the kernel's copy reads from there.
  static constexpr size_t kBlockBytes = 256 * 1024;

  using Seen = std::function<void(ByteView)>;
  using Written = std::function<void(uint64_t bytes)>;

  // `room` must outlive the file and is reused from file to file. `written` is called after each
  // write.
  static Result<BlockFile> create(const std::filesystem::path& path, data::Buffer& room,
                                  Written written, size_t block_bytes = kBlockBytes);

  uint64_t size_bytes() const { return flushed_bytes_ + used_; }

  Status append(ByteView bytes);
  // Appends a whole array. `seen` gets its bytes piece by piece, for checksums; it may be null.
  Status append_array(const Content& content, const ContentArray& array, const Seen& seen);
  // What is appended between these two is deflated. size_bytes() and overwrite() must wait.
  Status begin_deflated(int level);
  Status end_deflated();
  // `seen` gets them too; it may be null.
  Status append_zeros(uint64_t size_bytes, const Seen& seen = nullptr);
  // Overwrites bytes that were appended before.
  Status overwrite(uint64_t offset_bytes, ByteView bytes);

  Status close();

 private:
  BlockFile(File file, MutableByteView block, Written written)
      : file_(std::move(file)), block_(block), written_(std::move(written)) {}
  Status flush();
  Status write_out(ByteView bytes);

  File file_;
  MutableByteView block_;
  Written written_;
  std::unique_ptr<GzipWriter> deflater_;  // null: bytes are written as they are
  size_t used_ = 0;
  uint64_t flushed_bytes_ = 0;
};

}  // namespace millrace::bench
