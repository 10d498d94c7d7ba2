// sample_decoder: what a loader does with a sample besides reading it.
//
// Every sample is touched page by page, so that mapped files are really read, and checked
// (sample_check.h). Then, as the workload says: it is compared with what was generated
// (reader.verify), an image is decoded (reader.decode), or the thread waits for
// reader.preprocess_time. A row of the batch has the shape and type of
// reader.transformed_record_dims, or record_length_bytes_resize bytes. It is one word if neither is
// set: batches of samples of any length need no padding here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/generate/layout.h"
#include "bench/samples/sample_check.h"
#include "bench/workload/workload.h"
#include "data/decoder.h"
#include "format/format.h"

namespace millrace::bench {

// In which file of a split a sample is.
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

struct SampleDecoderOptions {
  std::shared_ptr<const format::Format> format;  // splits samples into fields; null for images
  SamplePlaces places;
  bool is_ours = false;             // the dataset has a manifest of ours
  std::shared_ptr<CheckCost> cost;  // shared with the caller; null: nobody wants to know
};

Result<std::shared_ptr<const data::Decoder>> make_sample_decoder(const Workload& workload,
                                                                 SampleDecoderOptions options);

}  // namespace millrace::bench
