// SamplePlaces: in which file of a split a sample is.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/generate/layout.h"
#include "data/sample.h"

namespace millrace::bench {

struct SamplePlaces {
  Split split = Split::kTrain;
  uint64_t samples_per_file = 1;
  // With reader.on_error=skip, if files were left out that could not be opened: the index of each
  // file that is read. Otherwise empty: all are.
  std::vector<uint64_t> files;

  SampleRef of(data::SampleId sample) const {
    const uint64_t index = data::index_of(sample);
    const uint64_t file = index / samples_per_file;
    return {.file = {split, files.empty() ? file : files[file]},
            .sample = index % samples_per_file};
  }
};

}  // namespace millrace::bench
