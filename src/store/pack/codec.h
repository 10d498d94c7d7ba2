// codec: how the bytes of a member are compressed: in blocks, by lz4 or zstd, with or without a
// byte shuffle. docs/formats/pack.md, "Members".
//
// Which encoding a member gets depends only on its bytes, so packing the same files again gives the
// same pack by the same libraries. Not thread-safe: each thread has its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "wire/pack_file.h"

namespace millrace::store {

// What the user asks for.
enum class CodecChoice { kAuto, kZstd, kLz4, kNone };

// Equal values compress and decompress alike.
struct Encoding {
  wire::PackCodec codec = wire::PackCodec::kRaw;
  uint8_t shuffle = 0;  // size of the shuffled elements: 2, 4, 8; 0: none
};

// "raw", "zstd", "lz4 after a shuffle of 4 bytes"
std::string encoding_name(Encoding encoding);

// Fails unless this version knows the numbers, and a raw member has as many bytes as it takes.
Status check_encoding(Encoding encoding, uint64_t packed_bytes, uint64_t size_bytes);

// A block of a member.
struct PackedBlock {
  ByteView bytes;
  size_t size_bytes = 0;  // original
  bool is_raw = false;
};

// The blocks of a member of `size_bytes`. Fails unless they fill `packed` exactly.
Result<std::vector<PackedBlock>> split_blocks(Encoding encoding, ByteView packed,
                                              uint64_t size_bytes);

// Compressing must save this share of the bytes; otherwise they are stored raw.
inline constexpr double kGainMin = 0.1;

using EachBlock = std::function<Status(ByteView block)>;

class BlockCodec {
 public:
  BlockCodec();
  BlockCodec(BlockCodec&&) noexcept;
  ~BlockCodec();

  // Chooses by trying a sample of the member. `bytes` is the member, or a part of a long one.
  Encoding choose(CodecChoice choice, ByteView bytes);

  // Appends a block and returns its word for the table (wire::kPackBlockRaw).
  // REQUIRES: encoding is not raw; block.size() <= wire::kPackBlockBytes
  uint32_t encode(Encoding encoding, ByteView block, std::vector<std::byte>& out);

  // Appends all blocks and the table. Returns false, and appends nothing, if that gains too little.
  bool encode_member(Encoding encoding, ByteView member, std::vector<std::byte>& out);

  // Fails unless `packed` yields exactly out.size() bytes. Does not know their checksum.
  Status decode_member(Encoding encoding, ByteView packed, MutableByteView out);

  // The same in blocks, for members of any length.
  Status decode_blocks(Encoding encoding, ByteView packed, uint64_t size_bytes,
                       const EachBlock& each);

  // One block. REQUIRES: out.size() == block.size_bytes
  Status decode(Encoding encoding, const PackedBlock& block, MutableByteView out);

 private:
  struct State;
  size_t compressed_size(Encoding encoding, ByteView bytes);
  ByteView shuffled(unsigned element_bytes, ByteView bytes);

  std::unique_ptr<State> state_;
};

}  // namespace millrace::store
