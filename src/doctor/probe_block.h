// Probe blocks: filled before a measurement, checked after it. Layout: wire/probe_block.h.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "base/numbers/random.h"
#include "base/result.h"
#include "wire/probe_block.h"

namespace millrace::doctor {

// Fills `blocks` with what belongs at `offset_bytes` of the file. REQUIRES: the size is a multiple
// of wire::kProbeBlockSizeBytes.
void fill_probe_blocks(MutableByteView blocks, uint64_t run, uint64_t offset_bytes, Random& random);

enum class Depth {
  kHeads,  // magic, run and offset: takes a microsecond per megabyte
  kWhole,  // the checksums as well
};

// Whether `blocks` hold what fill_probe_blocks wrote; the error names the first bad block.
Status verify_probe_blocks(ByteView blocks, uint64_t run, uint64_t offset_bytes, Depth depth);

}  // namespace millrace::doctor
