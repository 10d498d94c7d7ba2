// tensor_bundle: the files of TensorFlow's Saver, except the bytes of the tensors.
//
// The .index is a sorted table of the tensors, byte for byte as TensorFlow writes it. The .meta is
// a graph with one variable per tensor and the operations that restore them. Both can be
// made longer than they need to be, to have the size of a real model's files, and TensorFlow still
// reads them. docs/formats/tensorflow-checkpoint.md describes the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/array.h"

namespace millrace::bench {

struct BundleTensor {
  std::string key;
  data::ElementType type = data::ElementType::kF32;
  uint64_t count = 0;         // elements
  uint64_t shard = 0;         // which .data file
  uint64_t offset_bytes = 0;  // in it
  uint32_t crc32c = 0;        // of its bytes; only the .index needs it

  uint64_t size_bytes() const { return count * data::element_bytes(type); }
};

// A file: `head`, then as many bytes of any value, then `tail`.
struct PaddedFile {
  std::string head;
  uint64_t padding_bytes = 0;
  std::string tail;

  uint64_t size_bytes() const { return head.size() + padding_bytes + tail.size(); }
};

// The largest .meta: a protobuf message has a signed 32-bit size.
inline constexpr uint64_t kSaverGraphBytesMax = (uint64_t{1} << 31) - 1;

// The .index. It has `size_bytes` bytes, or more if it needs more.
// REQUIRES: `tensors` are sorted by key, and no two keys are equal.
PaddedFile bundle_index(std::span<const BundleTensor> tensors, uint64_t shard_count,
                        uint64_t size_bytes);

// The .meta. It has `size_bytes` bytes, or more if it needs more.
// REQUIRES: size_bytes <= kSaverGraphBytesMax.
PaddedFile saver_graph(std::span<const BundleTensor> tensors, uint64_t size_bytes);

// TensorFlow's number of a type (DT_FLOAT is 1).
uint64_t tensorflow_type_number(data::ElementType type);
std::optional<data::ElementType> tensorflow_type(uint64_t number);  // nullopt: text, for example

// The text file `checkpoint`, which names the latest checkpoint. Also at least `size_bytes` long.
std::string bundle_state(std::string_view prefix, uint64_t size_bytes);

}  // namespace millrace::bench
