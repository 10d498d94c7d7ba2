// megatron: tokens in Megatron-LM's .bin file, with their documents in an .idx file.
//
// With FormatOptions::window_tokens = N, the tokens of a file are one sequence, and sample i is
// N + 1 of them from token i * N on: N inputs, and the same shifted by one as targets. The token at
// the end of a window is the first of the next. A shorter rest is left out, as in Megatron. Without
// it, a sample is a document. The field is "tokens". docs/formats/megatron.md has the bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/dataset.h"

namespace millrace::format {

// "x/train.bin" -> "x/train.idx".
std::filesystem::path megatron_index_path(const std::filesystem::path& data_path);

struct MegatronSamples {
  data::ElementType type = data::ElementType::kI32;
  data::FileSamples samples;
};

// The samples of a data file of `data_bytes`, from its whole index file.
Result<MegatronSamples> parse_megatron(ByteView index_file, uint64_t data_bytes,
                                       uint64_t window_tokens);

}  // namespace millrace::format
