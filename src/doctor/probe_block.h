// Probe blocks: filled before a measurement, checked after it. Layout: wire/probe_block.h.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "base/random.h"
#include "base/result.h"
#include "wire/probe_block.h"

namespace millrace::doctor {

// Fills whole blocks as they belong at `offset_bytes` of the file. REQUIRES: the size is a multiple
// of wire::kProbeBlockSizeBytes.
void fill_probe_blocks(MutableByteView blocks, uint64_t run, uint64_t offset_bytes, Random& random);

enum class Depth {
  kHeads,  // magic, run and offset: a microsecond a megabyte
  kWhole,  // the checksums as well
};

// Whether the bytes are what fill_probe_blocks put there; the error names the first that is not.
Status verify_probe_blocks(ByteView blocks, uint64_t run, uint64_t offset_bytes, Depth depth);

}  // namespace millrace::doctor
