#include "doctor/probe_block.h"

#include <cassert>
#include <cstring>

#include "base/hash/crc32c.h"

namespace millrace::doctor {
namespace {

using wire::kProbeBlockSizeBytes;
using wire::ProbeBlockHead;

uint32_t checksum(ByteView block) {
  constexpr std::byte kZeros[sizeof(ProbeBlockHead::crc32c)] = {};
  const size_t field = offsetof(ProbeBlockHead, crc32c);
  const uint32_t before = crc32c(block.first(field));
  return crc32c(block.subspan(field + sizeof(kZeros)), crc32c(kZeros, before));
}

Status verify_block(ByteView block, uint64_t run, uint64_t offset_bytes, Depth depth) {
  ProbeBlockHead head;
  std::memcpy(&head, block.data(), sizeof(head));
  if (head.magic != wire::kProbeMagic || head.version != wire::kProbeVersion) {
    return fail(Errc::kCorrupt, "the block at byte {} came back with other bytes than were written",
                offset_bytes);
  }
  if (head.run != run || head.offset_bytes != offset_bytes) {
    return fail(Errc::kCorrupt, "the block at byte {} came back as the block at byte {}{}",
                offset_bytes, head.offset_bytes, head.run != run ? " of an earlier run" : "");
  }
  if (depth == Depth::kWhole && checksum(block) != head.crc32c) {
    return fail(Errc::kCorrupt, "the block at byte {} came back with a wrong checksum",
                offset_bytes);
  }
  return {};
}

}  // namespace

void fill_probe_blocks(MutableByteView blocks, uint64_t run, uint64_t offset_bytes,
                       Random& random) {
  assert(blocks.size() % kProbeBlockSizeBytes == 0);
  for (size_t at = 0; at < blocks.size(); at += kProbeBlockSizeBytes) {
    const MutableByteView block = blocks.subspan(at, kProbeBlockSizeBytes);
    for (size_t i = 0; i < block.size(); i += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(block.data() + i, &word, sizeof(word));
    }
    ProbeBlockHead head{.magic = wire::kProbeMagic,
                        .run = run,
                        .offset_bytes = offset_bytes + at,
                        .version = wire::kProbeVersion,
                        .crc32c = 0};
    std::memcpy(block.data(), &head, sizeof(head));
    head.crc32c = checksum(block);
    std::memcpy(block.data(), &head, sizeof(head));
  }
}

Status verify_probe_blocks(ByteView blocks, uint64_t run, uint64_t offset_bytes, Depth depth) {
  for (size_t at = 0; at < blocks.size(); at += kProbeBlockSizeBytes) {
    if (blocks.size() - at < kProbeBlockSizeBytes) {
      return fail(Errc::kCorrupt, "the block at byte {} came back short", offset_bytes + at);
    }
    RETURN_IF_ERROR(
        verify_block(blocks.subspan(at, kProbeBlockSizeBytes), run, offset_bytes + at, depth));
  }
  return {};
}

}  // namespace millrace::doctor
