#include "bench/checkpoint/tensor_bundle.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/text/protobuf.h"
#include "format/records/tfrecord.h"

namespace millrace::bench {
namespace {

constexpr size_t kBlockBytesMin = 256 * 1024;  // a block ends after the entry that reaches it
constexpr size_t kHandlesBytes = 40;
constexpr uint64_t kTableMagic = 0xdb4775248b80fb57;

void append_table_fixed(std::string& out, uint64_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) out += static_cast<char>(value >> (8 * i));
}

void append_table_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// A block of a sorted table. A key leaves out what it shares with the key before it, except at a
// restart, from which a reader may begin.
class TableBlock {
 public:
  explicit TableBlock(size_t keys_per_restart = 16) : keys_per_restart_(keys_per_restart) {}

  void add(std::string_view key, std::string_view value) {
    size_t shared = 0;
    if (entry_count_ % keys_per_restart_ == 0) {
      restarts_.push_back(bytes_.size());
    } else {
      shared = static_cast<size_t>(std::ranges::mismatch(last_key_, key).in1 - last_key_.begin());
    }
    append_table_number(bytes_, shared);
    append_table_number(bytes_, key.size() - shared);
    append_table_number(bytes_, value.size());
    bytes_ += key.substr(shared);
    bytes_ += value;
    last_key_ = key;
    ++entry_count_;
  }

  bool empty() const { return entry_count_ == 0; }
  bool is_full() const { return bytes_.size() + 4 * restarts_.size() + 4 >= kBlockBytesMin; }
  const std::string& last_key() const { return last_key_; }

  // The whole block, and its trailer: no compression, checksum.
  std::string finish() {
    if (restarts_.empty()) restarts_.push_back(0);
    for (const size_t restart : restarts_) append_table_fixed(bytes_, restart, 4);
    append_table_fixed(bytes_, restarts_.size(), 4);
    bytes_ += '\0';
    append_table_fixed(bytes_, format::masked_crc32c(bytes_of(bytes_)), 4);
    return std::move(bytes_);
  }

 private:
  size_t keys_per_restart_;
  std::string bytes_;
  std::vector<size_t> restarts_;
  std::string last_key_;
  size_t entry_count_ = 0;
};

constexpr size_t kBlockTrailerBytes = 5;

// Where a block is: its offset, and its size without the trailer.
std::string block_handle(uint64_t offset_bytes, const std::string& block) {
  std::string handle;
  append_table_number(handle, offset_bytes);
  append_table_number(handle, block.size() - kBlockTrailerBytes);
  return handle;
}

// A short key that is not before `last` and, unless `next` is empty, before `next`.
std::string short_separator(std::string last, std::string_view next) {
  size_t at = 0;
  if (!next.empty()) {
    at = static_cast<size_t>(std::ranges::mismatch(last, next).in1 - last.begin());
  }
  if (at >= last.size()) return last;
  const auto byte = static_cast<unsigned char>(last[at]);
  const bool fits = next.empty() || byte + 1 < static_cast<unsigned char>(next[at]);
  if (byte == 0xff || !fits) return last;
  last.resize(at + 1);
  last[at] = static_cast<char>(byte + 1);
  return last;
}

// Collects entries into blocks, and the keys of the blocks into the index of the table.
class TableBuilder {
 public:
  void add(std::string_view key, std::string_view value) {
    if (block_.is_full()) end_block(key);
    block_.add(key, value);
  }

  PaddedFile finish(uint64_t size_bytes) {
    if (!block_.empty()) end_block({});
    const std::string meta_index = TableBlock().finish();
    const std::string index = index_.finish();
    const uint64_t needed = blocks_.size() + meta_index.size() + index.size() + kHandlesBytes + 8;
    // Readers follow the handles, so there may be anything between two blocks.
    const uint64_t padding = size_bytes > needed ? size_bytes - needed : 0;
    const uint64_t meta_index_at = blocks_.size() + padding;
    std::string footer = block_handle(meta_index_at, meta_index) +
                         block_handle(meta_index_at + meta_index.size(), index);
    footer.resize(kHandlesBytes);
    append_table_fixed(footer, kTableMagic, 8);
    return {
        .head = std::move(blocks_), .padding_bytes = padding, .tail = meta_index + index + footer};
  }

 private:
  void end_block(std::string_view next_key) {
    const std::string key = short_separator(block_.last_key(), next_key);
    const std::string block = block_.finish();
    index_.add(key, block_handle(blocks_.size(), block));
    blocks_ += block;
    block_ = TableBlock();
  }

  std::string blocks_;
  TableBlock block_;
  TableBlock index_{/*keys_per_restart=*/1};
};

struct TypeNumber {
  data::ElementType type;
  uint64_t number;
};

// All types of elements.
constexpr TypeNumber kTypeNumbers[] = {
    {data::ElementType::kF32, 1},  {data::ElementType::kF64, 2},   {data::ElementType::kI32, 3},
    {data::ElementType::kU8, 4},   {data::ElementType::kI16, 5},   {data::ElementType::kI8, 6},
    {data::ElementType::kI64, 9},  {data::ElementType::kBool, 10}, {data::ElementType::kBf16, 14},
    {data::ElementType::kU16, 17}, {data::ElementType::kF16, 19},  {data::ElementType::kU32, 22},
    {data::ElementType::kU64, 23},
};

// Field numbers of tensorflow/core/protobuf/tensor_bundle.proto and of the messages it uses.
namespace header {
constexpr uint32_t kShardCount = 1, kVersion = 3, kProducer = 1;
}
namespace entry {
constexpr uint32_t kType = 1, kShape = 2, kShard = 3, kOffset = 4, kSize = 5, kCrc32c = 6;
constexpr uint32_t kDimension = 2, kDimensionSize = 1;  // of the shape
}  // namespace entry

std::string header_message(uint64_t shard_count) {
  std::string out;
  ProtobufWriter proto(out);
  proto.uint(header::kShardCount, shard_count);
  proto.message(header::kVersion, [&] { proto.uint(header::kProducer, 1); });
  return out;
}

std::string entry_message(const BundleTensor& tensor) {
  std::string out;
  ProtobufWriter proto(out);
  const auto unless_zero = [&](uint32_t field, uint64_t value) {
    if (value != 0) proto.uint(field, value);
  };
  proto.uint(entry::kType, tensorflow_type_number(tensor.type));
  proto.message(entry::kShape, [&] {
    proto.message(entry::kDimension, [&] { proto.uint(entry::kDimensionSize, tensor.count); });
  });
  unless_zero(entry::kShard, tensor.shard);
  unless_zero(entry::kOffset, tensor.offset_bytes);
  unless_zero(entry::kSize, tensor.size_bytes());
  proto.fixed32(entry::kCrc32c, format::mask_crc32c(tensor.crc32c));
  return out;
}

}  // namespace

PaddedFile bundle_index(std::span<const BundleTensor> tensors, uint64_t shard_count,
                        uint64_t size_bytes) {
  TableBuilder table;
  table.add("", header_message(shard_count));
  for (const BundleTensor& tensor : tensors) table.add(tensor.key, entry_message(tensor));
  return table.finish(size_bytes);
}

uint64_t tensorflow_type_number(data::ElementType type) {
  return std::ranges::find(kTypeNumbers, type, &TypeNumber::type)->number;
}

std::optional<data::ElementType> tensorflow_type(uint64_t number) {
  const auto* const found = std::ranges::find(kTypeNumbers, number, &TypeNumber::number);
  if (found == std::end(kTypeNumbers)) return std::nullopt;
  return found->type;
}

// In protobuf's text form, # begins a comment. If the file has to be longer, a comment fills it up.
std::string bundle_state(std::string_view prefix, uint64_t size_bytes) {
  std::string text =
      fmt::format("model_checkpoint_path: \"{0}\"\nall_model_checkpoint_paths: \"{0}\"\n", prefix);
  if (text.size() + 2 > size_bytes) return text;
  const auto padding = static_cast<size_t>(size_bytes) - text.size();
  text += '#';
  text.append(padding - 2, ' ');
  text += '\n';
  return text;
}

}  // namespace millrace::bench
