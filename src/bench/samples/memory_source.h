// memory_source: all samples of a source, read before the training (reader.read_type=memory).
#pragma once

#include <memory>

#include "base/result.h"
#include "data/source.h"

namespace millrace::bench {

// Reads every sample on all cores. Fails before the memory is full. If `keeps_errors`, a sample
// that cannot be read fails when it is asked for.
Result<std::shared_ptr<const data::SampleSource>> read_into_memory(
    std::shared_ptr<const data::SampleSource> source, bool keeps_errors);

}  // namespace millrace::bench
