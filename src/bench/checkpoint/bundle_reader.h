// bundle_reader: reads the .index of TensorFlow's checkpoints, and verifies their .data files.
//
// For checkpoints of any program, unlike Checkpointer::load, which knows what it wrote. Reads the
// format of docs/formats/tensorflow-checkpoint.md, with any number of axes, and tensors of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::bench {

struct StoredTensor {
  std::string key;
  uint64_t type_number = 0;  // TensorFlow's
  std::vector<uint64_t> lengths;
  uint64_t shard = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t masked_crc32c = 0;
  bool is_sliced = false;  // its parts are tensors of their own, and it has no bytes

  // Whether the checksum is that of the bytes. That of texts is computed in another way.
  bool has_plain_checksum() const;
};

struct BundleIndex {
  uint64_t shard_count = 0;
  std::vector<StoredTensor> tensors;  // sorted by key
};

enum class BlockChecksums : bool { kIgnore, kVerify };  // ignored only by the fuzz target

Result<BundleIndex> parse_bundle_index(ByteView file,
                                       BlockChecksums checksums = BlockChecksums::kVerify);

// An .index, and all tensors compared with their checksums.
struct VerifiedBundle {
  BundleIndex index;
  uint64_t data_bytes = 0;        // of all .data files
  uint64_t unverified_count = 0;  // tensors without a plain checksum
};

// `path` is the .index; the .data files are next to it. Uses little memory. Errors name the file,
// the tensor and its place.
Result<VerifiedBundle> verify_bundle(const std::filesystem::path& path);

}  // namespace millrace::bench
