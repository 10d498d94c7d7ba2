#include "bench/checkpoint/bundle_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/io/file.h"
#include "base/io/input_file.h"
#include "base/text/text.h"
#include "bench/checkpoint/tensor_bundle.h"
#include "format/records/tfrecord.h"

namespace millrace::bench {
namespace {

constexpr size_t kFooterBytes = 48;
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kTrailerSize = 5;
constexpr uint64_t kIndexBytesMax = uint64_t{1} << 30;
constexpr uint64_t kShardsMax = 100'000;  // five digits

struct TableHandle {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

Result<TableHandle> read_handle(ByteReader& reader) {
  TableHandle handle;
  ASSIGN_OR_RETURN(handle.offset_bytes, reader.read_varint());
  ASSIGN_OR_RETURN(handle.size_bytes, reader.read_varint());
  return handle;
}

// The block without its trailer.
Result<ByteView> table_block(ByteView file, TableHandle handle, BlockChecksums checksums) {
  const uint64_t room = file.size() - kFooterBytes;
  if (handle.offset_bytes > room || room - handle.offset_bytes < kTrailerSize ||
      handle.size_bytes > room - handle.offset_bytes - kTrailerSize) {
    return fail(Errc::kCorrupt, "a block of {} bytes at byte {} is not inside the file of {} bytes",
                handle.size_bytes, handle.offset_bytes, file.size());
  }
  const ByteView with_kind = file.subspan(static_cast<size_t>(handle.offset_bytes),
                                          static_cast<size_t>(handle.size_bytes) + 1);
  ByteReader trailer(file.subspan(static_cast<size_t>(handle.offset_bytes) + with_kind.size()));
  ASSIGN_OR_RETURN(const uint32_t expected, trailer.read<uint32_t>());
  if (checksums == BlockChecksums::kVerify) {
    const uint32_t found = format::masked_crc32c(with_kind);
    if (found != expected) {
      return fail(Errc::kCorrupt, "the block at byte {} has checksum {:#010x} instead of {:#010x}",
                  handle.offset_bytes, found, expected);
    }
  }
  if (with_kind.back() != std::byte{0}) {
    return fail(Errc::kUnsupported,
                "the block at byte {} is compressed, which is not supported; save the checkpoint "
                "with a tf.train.Saver",
                handle.offset_bytes);
  }
  return with_kind.first(with_kind.size() - 1);
}

// Calls use(key, value) for each entry of a block.
template <typename Use>
Status visit_block(ByteView block, Use&& use) {
  if (block.size() < 4) return fail(Errc::kCorrupt, "a block has only {} bytes", block.size());
  ByteReader count_reader(block.last(4));
  ASSIGN_OR_RETURN(const uint32_t restart_count, count_reader.read<uint32_t>());
  if (restart_count > (block.size() - 4) / 4) {
    return fail(Errc::kCorrupt, "a block of {} bytes claims {} restarts", block.size(),
                restart_count);
  }
  ByteReader reader(block.first(block.size() - 4 - 4 * size_t{restart_count}));
  std::string key;
  while (!reader.at_end()) {
    const size_t at = reader.position();
    ASSIGN_OR_RETURN(const uint64_t shared, reader.read_varint());
    ASSIGN_OR_RETURN(const uint64_t own, reader.read_varint());
    ASSIGN_OR_RETURN(const uint64_t value_bytes, reader.read_varint());
    if (shared > key.size()) {
      return fail(Errc::kCorrupt,
                  "the entry at byte {} of a block shares {} bytes with a key of {}", at, shared,
                  key.size());
    }
    ASSIGN_OR_RETURN(const std::string_view rest, reader.take_text(own));
    ASSIGN_OR_RETURN(const ByteView value, reader.take(value_bytes));
    key.resize(static_cast<size_t>(shared));
    key += rest;
    RETURN_IF_ERROR(use(key, value));
  }
  return {};
}

// A field of a protobuf message: a number, or bytes.
struct MessageField {
  uint64_t field = 0;
  uint64_t number = 0;
  ByteView bytes;
};

template <typename Use>
Status visit_message(ByteView message, Use&& use) {
  ByteReader reader(message);
  while (!reader.at_end()) {
    ASSIGN_OR_RETURN(const uint64_t key, reader.read_varint());
    MessageField found{.field = key >> 3, .number = 0, .bytes = {}};
    switch (key & 7) {
      case 0: {
        ASSIGN_OR_RETURN(found.number, reader.read_varint());
        break;
      }
      case 1: {
        ASSIGN_OR_RETURN(found.number, reader.read<uint64_t>());
        break;
      }
      case 2: {
        ASSIGN_OR_RETURN(const uint64_t size, reader.read_varint());
        ASSIGN_OR_RETURN(found.bytes, reader.take(size));
        break;
      }
      case 5: {
        ASSIGN_OR_RETURN(found.number, reader.read<uint32_t>());
        break;
      }
      default:
        return fail(Errc::kCorrupt, "a message has a field of unknown kind {}", key & 7);
    }
    RETURN_IF_ERROR(use(found));
  }
  return {};
}

Status parse_lengths(ByteView shape, std::vector<uint64_t>& lengths) {
  return visit_message(shape, [&](const MessageField& axis) -> Status {
    if (axis.field != 2) return {};
    uint64_t length = 0;
    RETURN_IF_ERROR(visit_message(axis.bytes, [&](const MessageField& part) -> Status {
      if (part.field == 1) length = part.number;
      return {};
    }));
    lengths.push_back(length);
    return {};
  });
}

Result<StoredTensor> parse_entry(const std::string& key, ByteView value) {
  StoredTensor tensor{.key = key, .lengths = {}};
  RETURN_IF_ERROR(visit_message(value, [&](const MessageField& part) -> Status {
    if (part.field == 1) tensor.type_number = part.number;
    if (part.field == 2) RETURN_IF_ERROR(parse_lengths(part.bytes, tensor.lengths));
    if (part.field == 3) tensor.shard = part.number;
    if (part.field == 4) tensor.offset_bytes = part.number;
    if (part.field == 5) tensor.size_bytes = part.number;
    if (part.field == 6) tensor.masked_crc32c = static_cast<uint32_t>(part.number);
    if (part.field == 7) tensor.is_sliced = true;
    return {};
  }));
  return tensor;
}

Result<uint64_t> parse_shard_count(ByteView header) {
  uint64_t shard_count = 0;
  RETURN_IF_ERROR(visit_message(header, [&](const MessageField& part) -> Status {
    if (part.field == 1) shard_count = part.number;
    if (part.field == 2 && part.number != 0) {
      return fail(Errc::kUnsupported, "the checkpoint is big-endian, which is not supported");
    }
    return {};
  }));
  if (shard_count == 0 || shard_count >= kShardsMax) {
    return fail(Errc::kCorrupt, "the header claims {} .data files", shard_count);
  }
  return shard_count;
}

Status add_entry(const std::string& key, ByteView value, BundleIndex& index) {
  if (index.shard_count == 0) {
    if (!key.empty()) {
      return fail(Errc::kCorrupt, "the first entry is '{}' instead of the header", printable(key));
    }
    ASSIGN_OR_RETURN(index.shard_count, parse_shard_count(value));
    return {};
  }
  if (index.tensors.empty() ? key.empty() : key <= index.tensors.back().key) {
    return fail(Errc::kCorrupt, "the tensor '{}' is not in order", printable(key));
  }
  ASSIGN_OR_RETURN(StoredTensor tensor,
                   parse_entry(key, value).within(fmt::format("tensor '{}'", printable(key))));
  if (tensor.shard >= index.shard_count) {
    return fail(Errc::kCorrupt, "the tensor '{}' is in .data file {}, but there are {}",
                printable(key), tensor.shard, index.shard_count);
  }
  index.tensors.push_back(std::move(tensor));
  return {};
}

// Where the .data file of a tensor is.
std::filesystem::path data_path(const std::filesystem::path& index_path, uint64_t shard,
                                uint64_t shard_count) {
  std::filesystem::path path = index_path;
  path.replace_extension();  // .index
  path += fmt::format(".data-{:05}-of-{:05}", shard, shard_count);
  return path;
}

Status verify_tensor(const File& file, uint64_t file_bytes, const StoredTensor& tensor,
                     MutableByteView buffer) {
  const std::string name = fmt::format("tensor '{}'", printable(tensor.key));
  if (tensor.offset_bytes > file_bytes || tensor.size_bytes > file_bytes - tensor.offset_bytes) {
    return fail(Errc::kCorrupt,
                "{} has {} bytes at byte {}, but the file ends at {}: it was truncated; restore an "
                "older checkpoint",
                name, tensor.size_bytes, tensor.offset_bytes, file_bytes);
  }
  if (!tensor.has_plain_checksum()) return {};
  uint32_t crc = 0;
  for (uint64_t done = 0; done < tensor.size_bytes;) {
    const MutableByteView part = buffer.first(
        static_cast<size_t>(std::min<uint64_t>(buffer.size(), tensor.size_bytes - done)));
    RETURN_IF_ERROR(file.read_exactly_at(tensor.offset_bytes + done, part));
    crc = crc32c(part, crc);
    done += part.size();
  }
  const uint32_t found = format::mask_crc32c(crc);
  if (found == tensor.masked_crc32c) return {};
  return fail(Errc::kCorrupt,
              "{}, {} bytes at byte {}, has checksum {:#010x} instead of {:#010x}: its bytes are "
              "damaged; restore an older checkpoint",
              name, tensor.size_bytes, tensor.offset_bytes, found, tensor.masked_crc32c);
}

// All tensors of one .data file. Returns the size of the file.
Result<uint64_t> verify_shard(const std::filesystem::path& path, const BundleIndex& index,
                              uint64_t shard, MutableByteView buffer) {
  ASSIGN_OR_RETURN(const File file, open_input(path));
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file.size_bytes().within(path.native()));
  for (const StoredTensor& tensor : index.tensors) {
    if (tensor.shard != shard || tensor.is_sliced) continue;
    RETURN_IF_ERROR(verify_tensor(file, file_bytes, tensor, buffer).within(path.native()));
  }
  return file_bytes;
}

}  // namespace

bool StoredTensor::has_plain_checksum() const {
  return !is_sliced && tensorflow_type(type_number).has_value();
}

Result<BundleIndex> parse_bundle_index(ByteView file, BlockChecksums checksums) {
  if (file.size() < kFooterBytes) {
    return fail(Errc::kCorrupt, "has {} bytes, but an index has at least {}", file.size(),
                kFooterBytes);
  }
  ByteReader magic(file.last(sizeof(kMagic)));
  ASSIGN_OR_RETURN(const uint64_t found, magic.read<uint64_t>());
  if (found != kMagic) {
    return fail(Errc::kCorrupt,
                "ends with {:#018x} instead of {:#018x}: it is not an index of TensorFlow, or was "
                "truncated",
                found, kMagic);
  }
  ByteReader footer(file.last(kFooterBytes));
  RETURN_IF_ERROR(read_handle(footer));  // of the meta index, which is empty
  ASSIGN_OR_RETURN(const TableHandle blocks_at, read_handle(footer));
  ASSIGN_OR_RETURN(const ByteView blocks, table_block(file, blocks_at, checksums));
  BundleIndex index;
  RETURN_IF_ERROR(visit_block(blocks, [&](const std::string&, ByteView value) -> Status {
    ByteReader reader(value);
    ASSIGN_OR_RETURN(const TableHandle handle, read_handle(reader));
    ASSIGN_OR_RETURN(const ByteView block, table_block(file, handle, checksums));
    return visit_block(block, [&](const std::string& key, ByteView entry) {
      return add_entry(key, entry, index);
    });
  }));
  if (index.shard_count == 0) return fail(Errc::kCorrupt, "has no header");
  return index;
}

Result<VerifiedBundle> verify_bundle(const std::filesystem::path& path) {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kIndexBytesMax));
  auto parsed = parse_bundle_index(bytes_of(text));
  if (!parsed.ok() && parsed.error().code() == Errc::kCorrupt) {
    return fail(Errc::kCorrupt, "{}: {}; restore an older checkpoint", path.native(),
                parsed.error().message());
  }
  VerifiedBundle bundle;
  ASSIGN_OR_RETURN(bundle.index, std::move(parsed).within(path.native()));
  std::vector<std::byte> buffer(kBufferBytes);
  for (uint64_t shard = 0; shard < bundle.index.shard_count; ++shard) {
    const auto data = data_path(path, shard, bundle.index.shard_count);
    ASSIGN_OR_RETURN(const uint64_t size, verify_shard(data, bundle.index, shard, buffer));
    bundle.data_bytes += size;
  }
  bundle.unverified_count = static_cast<uint64_t>(std::ranges::count_if(
      bundle.index.tensors,
      [](const StoredTensor& tensor) { return !tensor.has_plain_checksum(); }));
  return bundle;
}

}  // namespace millrace::bench
