// ProbeBlock: the head of each 4 KiB block of the file that `millrace doctor` writes to measure a
// directory. docs/formats/probe-block.md.
//
// A measured speed counts only if the bytes are correct: the head identifies the block and the run,
// and its checksum covers the block. The rest is random, so that file systems that compress or
// deduplicate show their speed for incompressible samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr size_t kProbeBlockSizeBytes = 4096;
inline constexpr uint64_t kProbeMagic = 0x45424f52504d5200;  // "\0RMPROBE" on disk

struct ProbeBlockHead {
  uint64_t magic;         // kProbeMagic
  uint64_t run;           // random, the same in all blocks of one measurement
  uint64_t offset_bytes;  // of this block in its file
  uint32_t version;       // 1
  uint32_t crc32c;        // of the whole block with this field zero
};
static_assert(sizeof(ProbeBlockHead) == 32);
static_assert(offsetof(ProbeBlockHead, crc32c) == 28);
static_assert(std::is_trivially_copyable_v<ProbeBlockHead>);

inline constexpr uint32_t kProbeVersion = 1;

}  // namespace millrace::wire
