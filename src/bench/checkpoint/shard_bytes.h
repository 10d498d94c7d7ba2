// ShardBytes: every byte of a file of a checkpoint, computed from its plan.
//
// A writer streams it, and a reader compares with it, both with a small buffer. Files of kind
// kTorch are what torch.save would write: a zip file with a pickled state dict and one stored
// member per tensor. docs/formats/checkpoint.md describes them byte by byte, and
// docs/formats/tensorflow-checkpoint.md those of TensorFlow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "bench/checkpoint/content.h"
#include "bench/checkpoint/plan.h"

namespace millrace::bench {

class ShardBytes {
 public:
  // `checkpoint` is the name of the checkpoint: tensors differ from one checkpoint to the next.
  ShardBytes(const PlannedFile& file, std::string_view checkpoint, bool randomizes);

  uint64_t size_bytes() const { return size_bytes_; }

  // REQUIRES: offset_bytes + out.size() <= size_bytes().
  void fill(uint64_t offset_bytes, MutableByteView out) const;

  // The index of the first byte of `found` that differs from the file's bytes at `offset_bytes` and
  // on; found.size() if there is none. REQUIRES: as for fill().
  size_t find_difference(uint64_t offset_bytes, ByteView found) const;

  // The byte at this offset.
  std::byte at(uint64_t offset_bytes) const;

  // What is at this byte, for messages: "tensor '3'['0']" or "the zip directory".
  std::string describe(uint64_t offset_bytes) const;

 private:
  struct Piece {
    uint64_t begin_bytes;
    uint64_t size_bytes;
    std::string text;  // if not empty, the bytes; else `content`
    CheckpointContent content;
    std::string what;
  };

  CheckpointContent content_of(const PlannedFile& file, size_t tensor) const;
  void add_torch(const PlannedFile& file);
  void add_index(const PlannedFile& file);
  void add_padded(PaddedFile padded, const PlannedFile& file, const std::string& what,
                  const std::string& padding);
  void add_text(std::string text, std::string what);
  void add_content(uint64_t size_bytes, CheckpointContent content, std::string what);
  const Piece& piece_at(uint64_t offset_bytes) const;

  std::string checkpoint_;
  bool randomizes_;
  std::vector<Piece> pieces_;  // without gaps
  uint64_t size_bytes_ = 0;
};

// The pickled state dict of a torch file, which names its tensors and their types: Python's pickle
// protocol 2, with only what torch.load(weights_only=True) accepts. The tensor at index i is the
// member `data/i` of the file. Tensors of one group follow each other.
std::string pickle_state(std::span<const PlannedTensor> tensors);

}  // namespace millrace::bench
